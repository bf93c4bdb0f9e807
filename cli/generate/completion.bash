# What the value of an option is: file, folder, one|words with what there is, text, or nothing.
_memsight_value()
{
	local kind=$1 cur=$2 head=
	shift 2
	case $kind in
	file) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
	folder) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
	one) mapfile -t COMPREPLY < <(compgen -W "$*" -- "$cur") ;;
	words)
		[[ $cur == *,* ]] && head=${cur%,*},
		compopt -o nospace
		mapfile -t COMPREPLY < <(compgen -P "$head" -W "$*" -- "${cur##*,}") ;;
	esac
}

# Where the operands of a command begin, from a word on: a number, or nothing if there are none yet.
_memsight_operand()
{
	local command=$1 i=$2 takes
	for ((; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) echo $((i + 1)); return ;;
		=) ((i++)) ;;
		-*)
			takes=$(_memsight_takes "$command" "${COMP_WORDS[i]}")
			[[ $takes && $takes != optional* && ${COMP_WORDS[i + 1]} != = ]] && ((i++)) ;;
		*) echo "$i"; return ;;
		esac
	done
}

_memsight_program()
{
	if [[ $1 ]] && declare -F _command_offset >/dev/null; then
		_command_offset "$1"
	elif [[ $1 ]]; then
		_memsight_value file "$2"
	else
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -c -- "$2"; compgen -d -- "$2")
	fi
}

_memsight()
{
	local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} command= i takes begin given=
	COMPREPLY=()
	for ((i = 1; i < COMP_CWORD; i++)); do
		[[ ${COMP_WORDS[i]} == -* ]] || { command=${COMP_WORDS[i]}; break; }
	done
	if [[ ! $command || $command == help ]]; then
		_memsight_value one "$cur" $(_memsight_commands) $([[ $command ]] || _memsight_options '')
		return
	fi
	begin=$(_memsight_operand "$command" $((i + 1)))
	if [[ $command == record && $begin ]]; then
		_memsight_program "$([[ $begin -lt $COMP_CWORD ]] && echo "$begin")" "$cur"
		return
	fi
	if [[ $cur == = ]]; then
		cur= given=yes
	elif [[ $option == = ]]; then
		option=${COMP_WORDS[COMP_CWORD - 2]} given=yes
	fi
	takes=$(_memsight_takes "$command" "$option")
	if [[ $takes && ( $given || $takes != optional* ) ]]; then
		takes=${takes#optional }
		_memsight_value ${takes%% *} "$cur" ${takes#* }
	elif [[ $cur == -* ]]; then
		_memsight_value one "$cur" $(_memsight_options "$command")
	elif [[ $command == record ]]; then
		_memsight_program '' "$cur"
	else
		_memsight_value "$(_memsight_operands "$command")" "$cur"
	fi
}
complete -F _memsight memsight
