# fish completion of numalloc-dump: views, options and keys come from the program itself.
function __numalloc_dump_names
    set -l words (commandline -opc)
    set -l tool $words[1]
    set -l view (string match -v -- '-*' $words[2..])[1]
    switch "$words[-1]"
        case --wrappers
            printf '%s\n' auto none
            return
        case --time --since
            printf '%s\n' peak end
            return
        case --sort --metric
            set -l access (string match -- --access $words)
            $tool help $view $access --keys 2>/dev/null
            or $tool help summary --keys 2>/dev/null
            return
    end
    if string match -q -- '-*' (commandline -ct)
        set -l names ($tool help $view --names 2>/dev/null)
        string match -q -- '--*' $names
        or set names ($tool help summary --names 2>/dev/null)
        string replace = '' -- $names
        return
    end
    if test -z "$view" -o "$view" = help
        $tool help --names 2>/dev/null
    end
end
complete -c numalloc-dump -a '(__numalloc_dump_names)'
