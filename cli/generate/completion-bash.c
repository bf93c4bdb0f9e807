#include "cli/generate/completion.h"

#include <stdio.h>

/*
 * What does not depend on the tables. Needs no package bash-completion, and uses it where it is
 * loaded.
 */
static const char functions[] =
	"# What the value of an option is: file, folder, one|words with what there is, text, or"
	" nothing.\n"
	"_memsight_value()\n"
	"{\n"
	"\tlocal kind=$1 cur=$2 head=\n"
	"\tshift 2\n"
	"\tcase $kind in\n"
	"\tfile) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
	"\tfolder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
	"\tone) mapfile -t COMPREPLY < <(compgen -W \"$*\" -- \"$cur\") ;;\n"
	"\twords)\n"
	"\t\t[[ $cur == *,* ]] && head=${cur%,*},\n"
	"\t\tcompopt -o nospace\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -P \"$head\" -W \"$*\" -- \"${cur##*,}\") ;;\n"
	"\tesac\n"
	"}\n"
	"\n"
	"# Where the operands of a command begin, from a word on: a number, or nothing if there are"
	" none yet.\n"
	"_memsight_operand()\n"
	"{\n"
	"\tlocal command=$1 i=$2 takes\n"
	"\tfor ((; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t--) echo $((i + 1)); return ;;\n"
	"\t\t=) ((i++)) ;;\n"
	"\t\t-*)\n"
	"\t\t\ttakes=$(_memsight_takes \"$command\" \"${COMP_WORDS[i]}\")\n"
	"\t\t\t[[ $takes && $takes != optional* && ${COMP_WORDS[i + 1]} != = ]] && ((i++)) ;;\n"
	"\t\t*) echo \"$i\"; return ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"}\n"
	"\n"
	"_memsight_program()\n"
	"{\n"
	"\tif [[ $1 ]] && declare -F _command_offset >/dev/null; then\n"
	"\t\t_command_offset \"$1\"\n"
	"\telif [[ $1 ]]; then\n"
	"\t\t_memsight_value file \"$2\"\n"
	"\telse\n"
	"\t\tcompopt -o filenames\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$2\"; compgen -d -- \"$2\")\n"
	"\tfi\n"
	"}\n"
	"\n"
	"_memsight()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} command= i"
	" takes begin given=\n"
	"\tCOMPREPLY=()\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\t[[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }\n"
	"\tdone\n"
	"\tif [[ ! $command || $command == help ]]; then\n"
	"\t\t_memsight_value one \"$cur\" $(_memsight_commands) $([[ $command ]] ||"
	" _memsight_options '')\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tbegin=$(_memsight_operand \"$command\" $((i + 1)))\n"
	"\tif [[ $command == record && $begin ]]; then\n"
	"\t\t_memsight_program \"$([[ $begin -lt $COMP_CWORD ]] && echo \"$begin\")\" \"$cur\"\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tif [[ $cur == = ]]; then\n"
	"\t\tcur= given=yes\n"
	"\telif [[ $option == = ]]; then\n"
	"\t\toption=${COMP_WORDS[COMP_CWORD - 2]} given=yes\n"
	"\tfi\n"
	"\ttakes=$(_memsight_takes \"$command\" \"$option\")\n"
	"\tif [[ $takes && ( $given || $takes != optional* ) ]]; then\n"
	"\t\ttakes=${takes#optional }\n"
	"\t\t_memsight_value ${takes%% *} \"$cur\" ${takes#* }\n"
	"\telif [[ $cur == -* ]]; then\n"
	"\t\t_memsight_value one \"$cur\" $(_memsight_options \"$command\")\n"
	"\telif [[ $command == record ]]; then\n"
	"\t\t_memsight_program '' \"$cur\"\n"
	"\telse\n"
	"\t\t_memsight_value \"$(_memsight_operands \"$command\")\" \"$cur\"\n"
	"\tfi\n"
	"}\n"
	"complete -F _memsight memsight\n";

static const char *name_of(enum command_id command)
{
	return command == COMMAND_GLOBAL ? "" : option_command(command)->name;
}

static void print_commands(void)
{
	fputs("_memsight_commands()\n{\n\techo help", stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		printf(" %s", name_of((enum command_id)i));
	fputs("\n}\n\n", stdout);
}

static void print_options(void)
{
	fputs("_memsight_options()\n{\n\tcase $1 in\n", stdout);
	for (int i = COMMAND_GLOBAL; i < COMMAND_COUNT; i++) {
		printf("\t'%s') echo", name_of((enum command_id)i));
		for (int id = 0; id < OPTION_COUNT; id++)
			if (option_is_of((enum option_id)id, (enum command_id)i))
				printf(" --%s", option_row((enum option_id)id)->name);
		fputs(" ;;\n", stdout);
	}
	fputs("\tesac\n}\n\n", stdout);
}

static void print_operands(void)
{
	fputs("_memsight_operands()\n{\n\tcase $1 in\n", stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		if (completion_operands((enum command_id)i) == COMPLETION_FILE)
			printf("\t%s) echo file ;;\n", name_of((enum command_id)i));
	fputs("\tesac\n}\n\n", stdout);
}

static void print_takes(enum command_id command, const struct option_row *row)
{
	static const char *const kinds[] = {
		[COMPLETION_TEXT] = "text",	[COMPLETION_FILE] = "file",
		[COMPLETION_FOLDER] = "folder", [COMPLETION_CHOICE] = "one",
		[COMPLETION_WORDS] = "words",
	};
	enum completion_kind kind = completion_of(row);

	if (kind == COMPLETION_NOTHING)
		return;
	printf("\t%s:--%s", name_of(command), row->name);
	if (row->letter)
		printf(" | %s:-%c", name_of(command), row->letter);
	printf(") echo %s%s", completion_is_optional(row) ? "optional " : "", kinds[kind]);
	for (int i = 0; i < CHOICE_COUNT; i++)
		if (completion_has_choice(row, (enum option_choice)i))
			printf(" %s", option_choice_name((enum option_choice)i));
	fputs(" ;;\n", stdout);
}

void completion_bash(void)
{
	fputs("# Completion of memsight for bash, made from the "
	      "tables of its commands and options.\n"
	      "\n",
	      stdout);
	print_commands();
	print_options();
	print_operands();
	fputs("_memsight_takes()\n{\n\tcase $1:$2 in\n", stdout);
	for (int i = COMMAND_GLOBAL + 1; i < COMMAND_COUNT; i++)
		for (int id = 0; id < OPTION_COUNT; id++)
			if (option_is_of((enum option_id)id, (enum command_id)i))
				print_takes((enum command_id)i, option_row((enum option_id)id));
	fputs("\tesac\n}\n\n", stdout);
	fputs(functions, stdout);
}
