/* Arm's statistical profiling extension, after tools/perf/util/arm-spe-decoder and arm-spe.c. */
#include <string.h>

#include "decode/hardware/hardware.h"
#include "perf/data-source.h"

enum packet {
	PACKET_BAD,
	PACKET_PAD,
	PACKET_END,
	PACKET_TIMESTAMP,
	PACKET_EVENTS,
	PACKET_SOURCE,
	PACKET_CONTEXT,
	PACKET_OPERATION,
	PACKET_ADDRESS,
	PACKET_COUNTER,
};

/* By the bits of a head byte; payloads are of 2 to the power of bits 4 and 5 bytes. */
static const struct {
	uint8_t mask;
	uint8_t value;
	enum packet packet;
} heads[] = {
	{ 0xff, 0x00, PACKET_PAD },	  { 0xff, 0x01, PACKET_END },
	{ 0xff, 0x71, PACKET_TIMESTAMP }, { 0xcf, 0x42, PACKET_EVENTS },
	{ 0xcf, 0x43, PACKET_SOURCE },	  { 0xfc, 0x64, PACKET_CONTEXT },
	{ 0xfc, 0x48, PACKET_OPERATION }, { 0xf8, 0xb0, PACKET_ADDRESS },
	{ 0xf8, 0x98, PACKET_COUNTER },
};

enum { ADDRESS_PC = 0, ADDRESS_VIRTUAL = 2, ADDRESS_PHYSICAL = 3 };
enum { COUNTER_TOTAL = 0, COUNTER_ISSUE = 1 };
enum { OPERATION_LOAD_STORE = 1 };

enum { /* bits of EVENTS */
       EVENT_L1_ACCESS = 1 << 2,
       EVENT_L1_MISS = 1 << 3,
       EVENT_TLB_ACCESS = 1 << 4,
       EVENT_TLB_WALK = 1 << 5,
       EVENT_LLC_ACCESS = 1 << 8,
       EVENT_LLC_MISS = 1 << 9,
       EVENT_REMOTE = 1 << 10,
};

/* A record while its packets are read. */
struct record {
	uint32_t issue_latency;
	uint32_t total_latency;
	uint32_t events;
	uint16_t source;
	uint8_t operation;
	bool has_source;
	bool is_begun; /* anything but padding was there */
	struct hardware_access access;
};

static enum packet packet_of(uint8_t head)
{
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		if ((head & heads[i].mask) == heads[i].value)
			return heads[i].packet;
	}
	return PACKET_BAD;
}

/* One packet with its payload. */
struct part {
	enum packet packet;
	unsigned index; /* ADDRESS, COUNTER: which; OPERATION, CONTEXT: class */
	size_t n_bytes; /* head and payload */
	uint64_t payload;
};

/* False: it is not all there yet. */
static bool read_part(const struct spe_cursor *cursor, struct part *part)
{
	const uint8_t *at = cursor->bytes + cursor->at;
	size_t left = cursor->n_bytes - cursor->at;
	size_t n_heads = 1;
	uint8_t head = at[0];
	unsigned extension = 0;

	if ((head & 0xfc) == 0x20) { /* a longer index, or an alignment to step over */
		if (left < 2)
			return false;
		if (at[1] == 0) {
			*part = (struct part){ PACKET_PAD, 0, 2, 0 };
			return true;
		}
		extension = (unsigned)(head & 3) << 3;
		head = at[1];
		n_heads = 2;
	}
	*part = (struct part){ packet_of(head), 0, n_heads, 0 };
	if (part->packet <= PACKET_END)
		return true;
	part->index = extension | (head & (part->packet >= PACKET_ADDRESS ? 7 : 3));
	size_t n_payload = (size_t)1 << (head >> 4 & 3);
	if (left < n_heads + n_payload)
		return false;
	memcpy(&part->payload, at + n_heads, n_payload);
	part->n_bytes += n_payload;
	return true;
}

/* The upper byte is a tag or says the exception level; the 55th bit says whose half it is. */
static uint64_t extend(uint64_t payload)
{
	uint64_t address = payload & ((UINT64_C(1) << 56) - 1);

	return address >> 55 & 1 ? address | UINT64_C(0xff) << 56 : address;
}

static void take_address(struct record *record, const struct part *part)
{
	struct hardware_access *access = &record->access;

	switch (part->index) {
	case ADDRESS_PC:
		access->ip = extend(part->payload);
		access->is_kernel = part->payload >> 61 & 3;
		break;
	case ADDRESS_VIRTUAL:
		access->address = extend(part->payload);
		access->has_address = true;
		break;
	case ADDRESS_PHYSICAL:
		access->physical_address = part->payload & ((UINT64_C(1) << 56) - 1);
		access->has_physical_address = true;
		break;
	default: /* of branches */
		break;
	}
}

static void take_part(struct record *record, const struct part *part)
{
	switch (part->packet) {
	case PACKET_ADDRESS:
		take_address(record, part);
		break;
	case PACKET_COUNTER:
		if (part->index == COUNTER_TOTAL)
			record->total_latency = (uint32_t)part->payload;
		else if (part->index == COUNTER_ISSUE)
			record->issue_latency = (uint32_t)part->payload;
		break;
	case PACKET_EVENTS:
		record->events = (uint32_t)part->payload;
		break;
	case PACKET_SOURCE:
		record->source = (uint16_t)part->payload;
		record->has_source = true;
		break;
	case PACKET_CONTEXT:
		record->access.context = (uint32_t)part->payload;
		break;
	case PACKET_OPERATION:
		record->access.is_memory = part->index == OPERATION_LOAD_STORE;
		record->operation = (uint8_t)part->payload;
		break;
	case PACKET_TIMESTAMP:
		record->access.ticks = part->payload;
		break;
	default:
		break;
	}
	record->is_begun |= part->packet != PACKET_PAD;
}

#define LEVEL(bits, number)                                                                        \
	((uint64_t)(bits) << DATA_SOURCE_LVL_SHIFT | (uint64_t)(number) << DATA_SOURCE_NUM_SHIFT)
#define HIT(bits, number) LEVEL(DATA_SOURCE_LVL_HIT | (bits), number)
#define SNOOP(bits)	  ((uint64_t)(bits) << DATA_SOURCE_SNOOP_SHIFT)
#define REMOTE		  (UINT64_C(1) << DATA_SOURCE_REMOTE_SHIFT)
#define PEER		  (UINT64_C(2) << DATA_SOURCE_SNOOPX_SHIFT)

/* Data sources of Arm's Neoverse cores (loads only), arm_spe__synth_data_source_common(). */
static uint64_t level_of_source(uint16_t source)
{
	switch (source) {
	case 0x0:
		return HIT(DATA_SOURCE_LVL_L1, DATA_SOURCE_NUM_L1) | SNOOP(DATA_SOURCE_SNOOP_NONE);
	case 0x8:
		return HIT(DATA_SOURCE_LVL_L2, DATA_SOURCE_NUM_L2) | SNOOP(DATA_SOURCE_SNOOP_NONE);
	case 0x9: /* another core */
		return HIT(DATA_SOURCE_LVL_L2, DATA_SOURCE_NUM_L2) | PEER;
	case 0xa: /* this cluster's cache, 0xc another one's */
	case 0xc:
		return HIT(DATA_SOURCE_LVL_L3, DATA_SOURCE_NUM_L3) | PEER;
	case 0xb:
		return HIT(DATA_SOURCE_LVL_L3, DATA_SOURCE_NUM_L3) | SNOOP(DATA_SOURCE_SNOOP_NONE);
	case 0xd:
		return HIT(DATA_SOURCE_LVL_REM_CCE1, DATA_SOURCE_NUM_ANY_CACHE) | REMOTE | PEER;
	case 0xe:
		return HIT(DATA_SOURCE_LVL_LOC_RAM, DATA_SOURCE_NUM_RAM) |
		       SNOOP(DATA_SOURCE_SNOOP_NONE);
	default:
		return 0;
	}
}

/* What the events say of levels: hit or miss there, and not where the data was in the end. */
static uint64_t level_of_events(uint32_t events)
{
	uint64_t level = (uint64_t)DATA_SOURCE_LVL_NA << DATA_SOURCE_LVL_SHIFT;

	if (events & (EVENT_LLC_ACCESS | EVENT_LLC_MISS))
		level = LEVEL(DATA_SOURCE_LVL_L3 | (events & EVENT_LLC_MISS ? DATA_SOURCE_LVL_MISS
									    : DATA_SOURCE_LVL_HIT),
			      DATA_SOURCE_NUM_L3);
	else if (events & (EVENT_L1_ACCESS | EVENT_L1_MISS))
		level = LEVEL(DATA_SOURCE_LVL_L1 | (events & EVENT_L1_MISS ? DATA_SOURCE_LVL_MISS
									   : DATA_SOURCE_LVL_HIT),
			      DATA_SOURCE_NUM_L1);
	if (events & EVENT_REMOTE)
		level = HIT(DATA_SOURCE_LVL_REM_CCE1, DATA_SOURCE_NUM_ANY_CACHE) | REMOTE;
	return level | SNOOP(DATA_SOURCE_SNOOP_NA);
}

static uint64_t data_src_of(const struct record *record)
{
	bool is_store = record->operation & 1;
	/* Atomic, exclusive, or with acquire and release: 0x02 and its bits. */
	bool is_locked = (record->operation & 0xe2) == 0x02 && record->operation & 0x0c;
	uint64_t level = record->has_source && !is_store ? level_of_source(record->source) : 0;
	uint64_t tlb = DATA_SOURCE_TLB_NA;

	if (record->events & (EVENT_TLB_ACCESS | EVENT_TLB_WALK))
		tlb = DATA_SOURCE_TLB_WALKER |
		      (record->events & EVENT_TLB_WALK ? DATA_SOURCE_TLB_MISS
						       : DATA_SOURCE_TLB_HIT);
	return (is_store ? DATA_SOURCE_OP_STORE : DATA_SOURCE_OP_LOAD) |
	       (level ? level : level_of_events(record->events)) | tlb << DATA_SOURCE_TLB_SHIFT |
	       (is_locked ? UINT64_C(2) : 0) << DATA_SOURCE_LOCK_SHIFT |
	       UINT64_C(1) << DATA_SOURCE_BLK_SHIFT;
}

static void end_record(struct record *record, struct hardware_access *ret_access)
{
	record->access.total_latency = record->total_latency;
	/* What the operation took once it was issued. */
	if (record->total_latency > record->issue_latency)
		record->access.latency = record->total_latency - record->issue_latency;
	record->access.data_src = record->access.is_memory ? data_src_of(record) : DATA_SOURCE_NONE;
	*ret_access = record->access;
}

int spe_decode_next(struct spe_cursor *cursor, struct hardware_access *ret_access)
{
	struct record record = { 0 };
	size_t begin = cursor->at;
	uint64_t n_damaged = cursor->n_damaged;
	struct part part;

	while (cursor->at < cursor->n_bytes && read_part(cursor, &part)) {
		if (part.packet == PACKET_BAD) {
			cursor->n_damaged++;
			cursor->at++;
			continue;
		}
		cursor->at += part.n_bytes;
		take_part(&record, &part);
		if (part.packet == PACKET_TIMESTAMP || part.packet == PACKET_END) {
			end_record(&record, ret_access);
			return 1;
		}
	}
	/* The rest comes with the next bytes; padding does not need to. */
	if (record.is_begun || cursor->at < cursor->n_bytes) {
		cursor->at = begin;
		cursor->n_damaged = n_damaged;
	}
	return 0;
}
