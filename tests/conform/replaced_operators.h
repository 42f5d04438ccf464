// replaced_operators.h - how often the operators of replaced_operators.cpp were called.
#include <cstddef>
#include <new>

#define REPLACED_VISIBLE __attribute__((visibility("default")))
#pragma GCC visibility push(default)
extern int replaced_news, replaced_deletes;
#pragma GCC visibility pop
