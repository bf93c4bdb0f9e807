/* Placeholder until the hooks arrive. */
extern int ta_placeholder;
int ta_placeholder;
