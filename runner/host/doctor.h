#pragma once
/* Looks for what is missing on this machine, and says exactly what gives it. */
#define DOCTOR_TEXT_BYTES 512

enum doctor_level {
	DOCTOR_FINE,
	DOCTOR_NOTE, /* works, with less than there could be; or makes measurements noisy */
	DOCTOR_MISSING, /* a part of the main job does not work */
};

struct doctor_finding {
	enum doctor_level level;
	const char *subject; /* "samples", "memory kinds" ... */
	const char *text;
	const char *fix; /* a command or a package; "" */
};

/* A negative result stops, and is handed on. */
typedef int (*doctor_sink)(void *user, const struct doctor_finding *finding);

/* Look at everything. Takes some ms; changes nothing. Returns 0 or the sink's result. */
int doctor_look(doctor_sink sink, void *user);
