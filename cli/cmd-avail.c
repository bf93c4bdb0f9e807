#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/options/config-file.h"
#include "runner/host/avail.h"
#include "runner/host/plugins.h"

#define NAME_COLUMNS 24

/* What is printed so far. */
struct listing {
	char section[32];
	bool only_names;
};

static int print_item(void *user, const struct avail_item *item)
{
	struct listing *listing = user;

	if (listing->only_names) {
		if (item->is_there)
			printf("%s\n", item->name);
		return 0;
	}
	if (strcmp(listing->section, item->section) != 0) {
		printf("%s%s\n", listing->section[0] ? "\n" : "", item->section);
		snprintf(listing->section, sizeof(listing->section), "%s", item->section);
	}
	printf("  %-*s %s%s%s%s%s\n", NAME_COLUMNS, item->name,
	       item->is_there ? "" : "no: ", item->about, item->fix[0] ? " (" : "", item->fix,
	       item->fix[0] ? ")" : "");
	return 0;
}

static void print_setting(const struct option_set *record, const struct option_row *row)
{
	const struct option_value *value = &record->values[row->id];
	const char *now = value->text ? value->text : "-";

	printf("  %-*s %-26s %-10s", NAME_COLUMNS, row->name, row->variable,
	       row->preset ? row->preset : "-");
	if (value->origin > OPTION_FROM_DEFAULT)
		printf(" now %s (%s%s)", now, value->of_preset ? "preset, " : "",
		       option_origin_name(value->origin));
	putchar('\n');
}

static void print_config_files(const struct config_file files[CONFIG_COUNT], bool are_wanted)
{
	printf("\nconfig files\n");
	for (int i = 0; i < CONFIG_COUNT; i++) {
		const struct config_file *file = &files[i];

		if (file->path[0])
			printf("  %-*s %s%s\n", NAME_COLUMNS, file->path,
			       file->is_read	  ? "read"
			       : !are_wanted	  ? "not read: --no-config"
			       : file->why_not[0] ? "not read: "
						  : "not there",
			       file->why_not);
	}
}

/* Every option of `record` with its variable, its default, and what it is now. */
static int print_settings(const struct option_set *options)
{
	auto_options struct option_set record = { 0 };
	struct config_file files[CONFIG_COUNT];
	static char no_config[] = "--no-config";
	static char program[] = "true";
	bool wants_files = !option_flag(options, OPTION_NO_CONFIG);
	char *words[] = { program, NULL, NULL };

	if (!wants_files) {
		words[0] = no_config;
		words[1] = program;
	}
	int r = option_parse(COMMAND_RECORD, wants_files ? 1 : 2, words, &record);
	r = r ?: config_files_take(&record, files);
	if (r < 0)
		return cmd_usage("%s", record.message);
	print_config_files(files, wants_files);
	printf("\nsettings of record: option, variable, default\n");
	for (int id = 0; id < OPTION_COUNT; id++) {
		const struct option_row *row = option_row((enum option_id)id);

		if (option_is_of(row->id, COMMAND_RECORD) && row->variable)
			print_setting(&record, row);
	}
	return CMD_DONE;
}

/* A component of a plug-in, with what is taken where it is not there. */
static int print_component(void *user, const struct plugin_component *component)
{
	char about[AVAIL_TEXT_BYTES];
	bool has_chain = strchr(component->chain, '|');

	snprintf(about, sizeof(about), "%s [%s, %s%s%s, plug-in %s]%s%s",
		 component->missing[0] ? component->missing : component->about, component->unit,
		 component->kind, component->where[0] ? ", " : "", component->where,
		 component->plugin, has_chain ? "; taken: the first of " : "",
		 has_chain ? component->chain : "");
	return print_item(user, &(struct avail_item){ "components", component->name,
						      !component->missing[0], about, "" });
}

int cmd_avail(const struct option_set *options)
{
	struct listing listing = { .only_names = option_flag(options, OPTION_IDS) };
	const struct run_options plugins = { .load = option_texts(options, OPTION_LOAD) };
	char load[RING_LOAD_BYTES], message[PLUGIN_MESSAGE_BYTES];

	if (plugins.load && plugins_prepare(&plugins, load, print_component, &listing, message) < 0)
		return cmd_fail("%s", message);
	avail_look(print_item, &listing);
	return listing.only_names ? CMD_DONE : print_settings(options);
}
