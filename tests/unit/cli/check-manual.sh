#!/bin/sh
# Every manual page passes groff with all its warnings, and holds what each page must have.
# Arguments: the pages.
command -v groff >/dev/null || {
	echo "skipped: groff is not installed (Debian: groff-base)"
	exit 77
}
[ $# -gt 0 ] || { echo "no pages given"; exit 1; }
status=0
for page; do
	warnings=$(groff -man -ww -Tutf8 "$page" 2>&1 >/dev/null)
	if [ -n "$warnings" ]; then
		echo "$page: $warnings"
		status=1
	fi
	for section in NAME SYNOPSIS DESCRIPTION OPTIONS 'EXIT STATUS' ENVIRONMENT 'SEE ALSO'; do
		grep -q "^\.SH $section\$" "$page" && continue
		echo "$page: no section $section"
		status=1
	done
done
exit $status
