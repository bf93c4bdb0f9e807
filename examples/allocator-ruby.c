/*
 * Objects of Ruby as blocks of memsight: its collector makes them in slots of its pages, and sweeps
 * them without a call that others could see. An extension that is required before all else:
 *
 *	cc -shared -fPIC -O2 -o memsight_ruby.so allocator-ruby.c
 *	memsight record -o app.mst -- ruby -r ./memsight_ruby.so app.rb
 *
 * What an object takes by malloc is malloc's. A slot has 40 bytes; since Ruby 3.2 there are larger
 * ones. These functions are Ruby's interface for profilers (ruby/debug.h), whose headers are not
 * needed.
 */
#include <memsight.h>
#include <stdint.h>

#define NEW_OBJECT   0x100000u /* RUBY_INTERNAL_EVENT_NEWOBJ */
#define FREED_OBJECT 0x200000u /* RUBY_INTERNAL_EVENT_FREEOBJ */
#define SLOT_BYTES   40

extern uintptr_t rb_tracepoint_new(uintptr_t thread, uint32_t events,
				   void (*call)(uintptr_t point, void *data), void *data);
extern uintptr_t rb_tracepoint_enable(uintptr_t point);
extern void *rb_tracearg_from_tracepoint(uintptr_t point);
extern uint32_t rb_tracearg_event_flag(void *event);
extern uintptr_t rb_tracearg_object(void *event);
extern void rb_gc_register_mark_object(uintptr_t object);

void Init_memsight_ruby(void);

static const char heap; /* its address stands for all of it */

static void on_event(uintptr_t point, void *data)
{
	void *event = rb_tracearg_from_tracepoint(point);
	const void *object = (const void *)rb_tracearg_object(event);

	(void)data;
	if (rb_tracearg_event_flag(event) == NEW_OBJECT)
		memsight_block(object, SLOT_BYTES, &heap);
	else
		memsight_block_end(object);
}

void Init_memsight_ruby(void)
{
	uintptr_t point = rb_tracepoint_new(0, NEW_OBJECT | FREED_OBJECT, on_event, NULL);

	rb_gc_register_mark_object(point);
	rb_tracepoint_enable(point);
}
