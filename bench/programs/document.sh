#!/bin/sh
# document.sh - mutool renders pages of a manual of 400 pages and takes the text of all of it.
#   document.sh INPUTS
pages=1-60
[ "$(cat "$1/size")" = full ] || pages=30-31
mutool draw -q -r 100 -F png -o /dev/null "$1/manual.pdf" "$pages" && exec mutool convert -F text -o /dev/null "$1/manual.pdf"
