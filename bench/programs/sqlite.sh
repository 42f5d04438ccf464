#!/bin/sh
# sqlite.sh - sqlite3 loads a table in bulk into memory, indexes it and answers queries.
#   sqlite.sh INPUTS
cd "$1" && exec sqlite3 -batch -init queries.sql :memory: .quit
