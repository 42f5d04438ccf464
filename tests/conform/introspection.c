/* introspection.c - malloc_info, mallinfo, mallinfo2, malloc_stats, malloc_trim, mallopt: callable,
 * sane in their figures, and malloc_info's text is well-formed XML. */
#include "support/check.h"
#include "support/child.h"

#include <ctype.h>
#include <malloc.h>

/* A checker for the part of XML that malloc_info uses: one root, elements properly nested, names
 * and quoted attributes, no stray markup. Returns NULL, or what is wrong. */
static const char *xml_fault(const char *at) {
    char stack[32][64];
    int depth = 0;
    int roots = 0;
    if (strncmp(at, "<?xml", 5) == 0) {
        at = strstr(at, "?>");
        if (at == NULL) return "declaration without end";
        at += 2;
    }
    for (; *at != '\0';) {
        if (*at != '<') {
            if (depth == 0 && !isspace((unsigned char)*at)) return "text outside the root";
            if (*at == '>' || *at == '&') return "bare > or &";
            at++;
            continue;
        }
        at++;
        bool closes = *at == '/';
        if (closes) at++;
        char name[64];
        size_t n = 0;
        while (n < sizeof name - 1 &&
               (isalnum((unsigned char)*at) || strchr("_-.:", *at) != NULL) && *at != '\0')
            name[n++] = *at++;
        name[n] = '\0';
        if (n == 0) return "element without name";
        bool empty = false;
        for (;;) {
            while (isspace((unsigned char)*at))
                at++;
            if (*at == '>') break;
            if (*at == '/' && at[1] == '>' && !closes) {
                empty = true;
                at++;
                break;
            }
            if (closes) return "attributes in an end tag";
            if (!isalpha((unsigned char)*at)) return "bad attribute name";
            while (isalnum((unsigned char)*at) || *at == '_' || *at == '-')
                at++;
            if (*at++ != '=') return "attribute without value";
            char quote = *at++;
            if (quote != '"' && quote != '\'') return "attribute without quotes";
            while (*at != quote && *at != '\0' && *at != '<')
                at++;
            if (*at++ != quote) return "attribute value without end";
        }
        at++;
        if (closes) {
            if (depth == 0 || strcmp(stack[--depth], name) != 0) return "end tag without start";
        } else {
            if (depth == 0 && roots++ > 0) return "two roots";
            if (!empty) {
                if (depth == 32) return "too deep";
                memcpy(stack[depth++], name, sizeof name);
            }
        }
    }
    if (depth != 0) return "element without end";
    return roots == 1 ? NULL : "no root";
}

static void info_is_xml(void) {
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    REQUIRE(stream != NULL);
    CHECK(malloc_info(0, stream) == 0);
    REQUIRE(fclose(stream) == 0);
    const char *fault = xml_fault(text);
    CHECK_MSG(fault == NULL, "%s in:\n%.800s", fault, text);
    CHECK(strncmp(text, "<malloc", 7) == 0 || strstr(text, "\n<malloc") != NULL);
    free(text);
    stream = open_memstream(&text, &length);
    REQUIRE(stream != NULL);
    CHECK(malloc_info(1, stream) == EINVAL); /* no options are defined */
    fclose(stream);
    free(text);
}

static void the_checker_checks(void) {
    CHECK(xml_fault("<a><b x=\"1\"/></a>\n") == NULL);
    CHECK(xml_fault("<a><b></a></b>") != NULL);
    CHECK(xml_fault("<a>") != NULL);
    CHECK(xml_fault("<a x=1/>") != NULL);
    CHECK(xml_fault("<a/><b/>") != NULL);
    CHECK(xml_fault("") != NULL);
}

/* uordblks + hblkhd: bytes in use, in blocks and in mappings of their own. */
static size_t in_use(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static void figures_follow_use(void) {
    enum { BLOCKS = 2000 };
    static void *blocks[BLOCKS];
    size_t before = in_use();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(16000);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, 16000);
    }
    size_t held = in_use();
    CHECK_MSG(held >= before + 28000000 && held < before + 64000000, "%zu -> %zu", before, held);
    struct mallinfo2 info = mallinfo2();
    CHECK_MSG(info.arena + info.hblkhd >= info.uordblks, "arena %zu < in use %zu", info.arena,
              info.uordblks);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    struct mallinfo old = mallinfo();
#pragma GCC diagnostic pop
    CHECK_MSG((size_t)(unsigned)old.uordblks + (size_t)(unsigned)old.hblkhd >= before + 28000000,
              "mallinfo: %d", old.uordblks);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t after = in_use();
    CHECK_MSG(after < before + 4000000, "%zu after all was freed, %zu before", after, before);
    int trimmed = malloc_trim(0);
    CHECK_MSG(trimmed == 0 || trimmed == 1, "malloc_trim gave %d", trimmed);
}

static void trim_gives_back(void) {
    enum { BLOCKS = 100000 };
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1000);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, 1000);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    int trimmed = malloc_trim(0);
    CHECK_MSG(trimmed == 0 || trimmed == 1, "malloc_trim gave %d", trimmed);
    struct mallinfo2 info = mallinfo2();
    CHECK_MSG(info.fordblks < ((size_t)64 << 20) || !check_is_ours(), "free after trim: %zu",
              info.fordblks);
    CHECK(malloc_trim(SIZE_MAX) == 0 || !check_is_ours()); /* may keep everything: gives nothing */
}

int main(int argc, char **argv) {
    check_begin();
    if (argc > 1 && strcmp(argv[1], "stats") == 0) {
        free(check_opaque(malloc(1000)));
        malloc_stats();
        return 0;
    }
    the_checker_checks();
    info_is_xml();
    figures_follow_use();
    trim_gives_back();
    /* Known parameters are accepted or refused, never fatal; unknown ones do not matter. */
    static const int parameters[] = {
        M_MXFAST,       M_TRIM_THRESHOLD, M_TOP_PAD,    M_MMAP_THRESHOLD, M_MMAP_MAX,
        M_CHECK_ACTION, M_PERTURB,        M_ARENA_TEST, M_ARENA_MAX,      12345};
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++) {
        int result = mallopt(parameters[i], parameters[i] == M_PERTURB ? 0 : 1);
        CHECK_MSG(result == 0 || result == 1, "mallopt(%d) gave %d", parameters[i], result);
    }
    free(check_opaque(malloc(1000)));
    child_result_t result;
    child_run_self(&result, "stats", NULL, NULL, NULL, NULL);
    child_expect_ok(&result, "malloc_stats");
    CHECK_MSG(strlen(result.err) > 0 && strpbrk(result.err, "0123456789") != NULL, "printed: %s",
              result.err);
    return check_status();
}
