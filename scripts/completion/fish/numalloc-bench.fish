# fish completion of numalloc-bench: benchmarks and options come from the program itself.
function __numalloc_bench_names
    set -l words (commandline -opc)
    set -l tool $words[1]
    if string match -q -- '-*' (commandline -ct)
        set -l before (string match -v -- '-*' $words[2..3])
        $tool $before --help 2>/dev/null | string match -rg '^  (--[a-z-]*)'
        echo -- --help
    else if test (count $words) -eq 1
        $tool list 2>/dev/null | string match -rg '^ *([a-z-]+) '
        printf '%s\n' compare list
    else if test (count $words) -eq 2 -a "$words[2]" = compare
        $tool list 2>/dev/null | string match -rg '^ *([a-z-]+) '
    end
end
complete -c numalloc-bench -a '(__numalloc_bench_names)'
