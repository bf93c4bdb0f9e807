/* An auditing library that looks at each call (rtld-audit(7)): it is loaded before all others. */
#include <link.h>
#include <stdlib.h>

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie);

unsigned la_version(unsigned version)
{
	return version;
}

unsigned la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	(void)map;
	(void)namespace;
	(void)cookie;
	return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

#ifdef __x86_64__
/*
 * Of these calls the arguments on the stack are carried over, so many bytes, and la_pltexit is
 * called.
 */
Elf64_Addr la_x86_64_gnu_pltenter(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
				  La_x86_64_regs *registers, unsigned *flags, const char *name,
				  long *ret_frame_bytes)
{
	(void)index;
	(void)from;
	(void)to;
	(void)registers;
	(void)flags;
	(void)name;
	free(malloc(10));
	*ret_frame_bytes = 256;
	return symbol->st_value;
}

unsigned la_x86_64_gnu_pltexit(Elf64_Sym *symbol, unsigned index, uintptr_t *from, uintptr_t *to,
			       const La_x86_64_regs *in, La_x86_64_retval *out, const char *name)
{
	(void)symbol;
	(void)index;
	(void)from;
	(void)to;
	(void)in;
	(void)out;
	(void)name;
	return 0;
}
#endif
