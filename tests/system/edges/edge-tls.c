/* A library with static TLS: what is left of it bounds how many of these can be loaded. */
int *edge_tls(void);

static _Thread_local int words[32] __attribute__((tls_model("initial-exec")));

int *edge_tls(void)
{
	return words;
}
