#!/bin/sh
# gcc.sh - g++ -O2 of a large C++ file, as far as its assembly: cc1plus is the process that works.
#   gcc.sh INPUTS
exec g++ -std=c++17 -O2 -S -o /dev/null "$1/large.cpp"
