/* html.h - draws a comparison into one HTML file. */
#ifndef NUMALLOC_BENCH_COMPARE_HTML_H
#define NUMALLOC_BENCH_COMPARE_HTML_H

#include "bench/compare/comparison.h"

#include <stdio.h>

void na_compare_html(const na_comparison_t *comparison, FILE *out);

/* Writes text so that it is only text in HTML, in an attribute too. */
void na_html_text(const char *text, FILE *out);

#endif
