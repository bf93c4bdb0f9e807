/* A library without a plug-in, and a name that is nearly that of one. */
void memsight_registre_other(void);

void memsight_registre_other(void)
{
}
