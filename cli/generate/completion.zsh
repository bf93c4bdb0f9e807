		'1: :->command' \
		'*:: :->rest' && return
	case $state in
	command) _describe -t commands command commands ;;
	rest)
		curcontext="${curcontext%:*:*}:memsight-$words[1]:"
		if [[ $words[1] == help ]]; then
			_describe -t commands command commands
		elif (( $+functions[_memsight_$words[1]] )); then
			_memsight_$words[1]
		fi ;;
	esac
}

_memsight "$@"
