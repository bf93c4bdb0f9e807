/*
 * memsight.h: what a program can tell its recorder (`memsight record PROGRAM`): regions of its run,
 * marks, names of objects, and what is to be recorded when. docs/api.md says how it shows in
 * reports.
 *
 * There is nothing to link: the functions are weak symbols of the library that `memsight record`
 * preloads. In a program that nobody records each call below is one load and a branch. C99 and
 * C++98, gcc and clang. All functions may be called from any thread and from signal handlers, keep
 * errno, neither allocate nor lock, and cannot fail: what there is no room for is counted as lost.
 *
 * Names are texts of at most 255 bytes; longer ones are cut. They are copied. NULL is "".
 */
#ifndef MEMSIGHT_H
#define MEMSIGHT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* gcc: naming memory neither reads nor writes it. */
#if defined(__has_attribute) && !defined(__clang__)
#if __has_attribute(access) && __GNUC__ >= 11
#define MEMSIGHT_NO_ACCESS(i) __attribute__((access(none, i)))
#endif
#endif
#ifndef MEMSIGHT_NO_ACCESS
#define MEMSIGHT_NO_ACCESS(i)
#endif

/* What the recorder provides; the number is that of this interface. Not to be called directly. */
#define MEMSIGHT_WEAK __attribute__((weak))
extern void memsight_1_region_push(const char *name) MEMSIGHT_WEAK;
extern void memsight_1_region_pop(const char *name) MEMSIGHT_WEAK;
extern void memsight_1_mark(const char *name) MEMSIGHT_WEAK;
extern void memsight_1_name(const void *object, size_t size, const char *name) MEMSIGHT_WEAK
	MEMSIGHT_NO_ACCESS(1);
extern void memsight_1_block(const void *pointer, size_t size, const void *pool) MEMSIGHT_WEAK
	MEMSIGHT_NO_ACCESS(1) MEMSIGHT_NO_ACCESS(3);
extern void memsight_1_block_end(const void *pointer) MEMSIGHT_WEAK MEMSIGHT_NO_ACCESS(1);
extern void memsight_1_pool_reset(const void *pool) MEMSIGHT_WEAK MEMSIGHT_NO_ACCESS(1);
extern void memsight_1_pause(void) MEMSIGHT_WEAK;
extern void memsight_1_resume(void) MEMSIGHT_WEAK;
extern void memsight_1_pause_thread(void) MEMSIGHT_WEAK;
extern void memsight_1_resume_thread(void) MEMSIGHT_WEAK;
extern void memsight_1_collect_push(const char *classes) MEMSIGHT_WEAK;
extern void memsight_1_collect_pop(void) MEMSIGHT_WEAK;

/*
 * MEMSIGHT_CALL(function, arguments): the address comes from the global offset table also in a
 * program that is not position independent: there a linker would take it to be 0 for good. In a
 * program that is linked statically it does so: a note of the file (name "memsight", type 1: the
 * address of the instruction, and what it is to load) lets the recorder change the instruction.
 */
#if defined(__x86_64__) && !defined(__ILP32__)
#if __GNUC__ >= 9 || (defined(__clang_major__) && __clang_major__ >= 11)
#define MEMSIGHT_ASM __asm__ __inline__ /* a compiler counts its lines, else */
#else
#define MEMSIGHT_ASM __asm__
#endif
#define MEMSIGHT_ADDRESS(function, pointer)                                                        \
	MEMSIGHT_ASM(".weak " #function "\n990:\tmovq " #function "@GOTPCREL(%%rip), %0\n"         \
		     "\t.pushsection .note.memsight,\"?\",@note\n"                                 \
		     "\t.balign 4\n\t.long 992f-991f, 994f-993f, 1\n"                              \
		     "991:\t.asciz \"memsight\"\n992:\t.balign 4\n"                                \
		     "993:\t.quad 990b\n\t.asciz \"" #function "\"\n994:\t.balign 4\n"             \
		     "\t.popsection"                                                               \
		     : "=r"(pointer))
#else
#define MEMSIGHT_ADDRESS(function, pointer) (pointer = function)
#endif
#define MEMSIGHT_CALL(function, arguments)                                                         \
	do {                                                                                       \
		__typeof__(&function) memsight_function;                                           \
		MEMSIGHT_ADDRESS(function, memsight_function);                                     \
		if (__builtin_expect(memsight_function != 0, 0))                                   \
			memsight_function arguments;                                               \
	} while (0)
#define MEMSIGHT_INLINE static __inline__ __attribute__((unused, always_inline))

/*
 * A region: from push to pop the calling thread is in it. Regions nest; each thread has its own.
 * The report has a line for each path of regions, over all threads: trips, time, CPU time, faults,
 * and the blocks and bytes that were allocated, with and without the regions inside.
 */
MEMSIGHT_INLINE void memsight_region_push(const char *name)
{
	MEMSIGHT_CALL(memsight_1_region_push, (name));
}

/*
 * End the innermost region of that name, and those inside it that were left open (which is noted).
 * NULL: the innermost region, whatever its name. Without such a region it is counted, and nothing
 * else happens. What is still open when its thread ends, ends with it.
 */
MEMSIGHT_INLINE void memsight_region_pop(const char *name)
{
	MEMSIGHT_CALL(memsight_1_region_pop, (name));
}

/* Note this moment under a name. */
MEMSIGHT_INLINE void memsight_mark(const char *name)
{
	MEMSIGHT_CALL(memsight_1_mark, (name));
}

/*
 * Call the bytes from object on by a name: accesses to them are told under it, whatever else they
 * lie in. size 0: the block, variable or mapping that object lies in, as far as memsight knows it.
 * It holds until the block or mapping is given back, another name takes the place, or name is NULL.
 */
MEMSIGHT_INLINE void MEMSIGHT_NO_ACCESS(1)
	memsight_name_range(const void *object, size_t size, const char *name)
{
	MEMSIGHT_CALL(memsight_1_name, (object, size, name));
}

/*
 * The same, with the size of an array that is named directly (memsight_name(table, "table")); of
 * anything else that of the block, variable or mapping it lies in. Of what a pointer points to on
 * the stack nobody knows the size: there use memsight_name_range().
 */
#ifdef __cplusplus
extern "C++" {
template <typename T, size_t N> inline void memsight_name(T (&object)[N], const char *name)
{
	memsight_name_range(object, sizeof(object), name);
}
inline void memsight_name(const void *object, const char *name)
{
	memsight_name_range(object, 0, name);
}
}
#else
#define memsight_name(object, name)                                                                \
	memsight_name_range((object),                                                              \
			    __builtin_types_compatible_p(__typeof__(object),                       \
							 __typeof__(1 ? (object) : (object)))      \
				    ? (size_t)0                                                    \
				    : sizeof(object),                                              \
			    (name))
#endif

/*
 * For an allocator of the program's own: size bytes from pointer on are a block that it hands out.
 * pool: anything that is the same for blocks that end together, as a pool or arena; NULL: none.
 * Where the block lies in one of malloc (or in a block of another pool) it is the object, and that
 * one keeps what is left of it: no byte counts twice in what is live. NULL or size 0: nothing.
 */
MEMSIGHT_INLINE void MEMSIGHT_NO_ACCESS(1) MEMSIGHT_NO_ACCESS(3)
	memsight_block(const void *pointer, size_t size, const void *pool)
{
	MEMSIGHT_CALL(memsight_1_block, (pointer, size, pool));
}

/* It is about to be given back. What moves or grows a block ends one and begins another. */
MEMSIGHT_INLINE void MEMSIGHT_NO_ACCESS(1) memsight_block_end(const void *pointer)
{
	MEMSIGHT_CALL(memsight_1_block_end, (pointer));
}

/*
 * All blocks of a pool are about to be given back. Whatever memory they lie in may also be freed or
 * unmapped without a word: that ends them as well.
 */
MEMSIGHT_INLINE void MEMSIGHT_NO_ACCESS(1) memsight_pool_reset(const void *pool)
{
	MEMSIGHT_CALL(memsight_1_pool_reset, (pool));
}

/*
 * Record nothing until memsight_resume(), in all threads: no allocations of blocks and mappings, no
 * samples, no page faults. Frees are recorded all the same, and so are regions, marks and names.
 * Pauses nest: each wants its resume; a resume without a pause does nothing. A forked child
 * inherits the pause, another program (exec) does not.
 */
MEMSIGHT_INLINE void memsight_pause(void)
{
	MEMSIGHT_CALL(memsight_1_pause, ());
}

MEMSIGHT_INLINE void memsight_resume(void)
{
	MEMSIGHT_CALL(memsight_1_resume, ());
}

/*
 * The same for the calling thread alone. Ends with the thread; a forked child goes on without it.
 */
MEMSIGHT_INLINE void memsight_pause_thread(void)
{
	MEMSIGHT_CALL(memsight_1_pause_thread, ());
}

MEMSIGHT_INLINE void memsight_resume_thread(void)
{
	MEMSIGHT_CALL(memsight_1_resume_thread, ());
}

/*
 * Until memsight_collect_pop() collect only these classes, in all threads: a list such as
 * "heap,faults" of heap, mmap, brk, shm, threads, regions, samples, faults; "" is none of them.
 * What --events or --source left out stays out. One stack for the whole process, 7 deep: pushes
 * beyond that change nothing. Ends of what was recorded are recorded all the same.
 */
MEMSIGHT_INLINE void memsight_collect_push(const char *classes)
{
	MEMSIGHT_CALL(memsight_1_collect_push, (classes));
}

MEMSIGHT_INLINE void memsight_collect_pop(void)
{
	MEMSIGHT_CALL(memsight_1_collect_pop, ());
}

#ifdef __cplusplus
}
#endif

#endif
