#pragma once
/*
 * Words for the numbers of a trace, as people read them: record's summary and the database agree.
 */

/* Why an image was not traced (enum trace_why_not): "static", "setuid" ...; "traced" for 0. */
const char *trace_why_not_name(unsigned why_not);

/* The function that made an event (enum trace_call): "malloc", "operator new" ... */
const char *trace_call_name(unsigned call);
