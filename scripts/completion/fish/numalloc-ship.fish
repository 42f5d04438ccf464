# fish completion of numalloc-ship: its options come from the program itself.
function __numalloc_ship_names
    set -l words (commandline -opc)
    if test "$words[-1]" = --to
        printf '%s\n' pyroscope parca raw
    else if string match -q -- '-*' (commandline -ct)
        $words[1] --help 2>/dev/null | string match -rg '^  (--[a-z-]*)'
        echo -- --help
    else
        __fish_complete_directories
    end
end
complete -c numalloc-ship -f -a '(__numalloc_ship_names)'
