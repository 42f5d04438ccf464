# fish completion of numalloc-run: its options come from the program itself; behind the program's
# name the completion is that program's.
function __numalloc_run_options
    command numalloc-run --names 2>/dev/null | string replace -r '=?\]?$' '' | string replace '[' ''
end
complete -c numalloc-run -n '__fish_is_first_token' -a '(__fish_complete_subcommand)' -x
complete -c numalloc-run -n 'string match -q -- "-*" (commandline -ct)' -a '(__numalloc_run_options)' -f
complete -c numalloc-run -s o -l output -r -F
complete -c numalloc-run -l library -r -F
complete -c numalloc-run -l access -x -a '(command numalloc-run --names=access 2>/dev/null)'
complete -c numalloc-run -l start -x -a '(__fish_complete_pids)'
complete -c numalloc-run -l stop -x -a '(__fish_complete_pids)'
complete -c numalloc-run -l dump -x -a '(__fish_complete_pids)'
complete -c numalloc-run -l growth -x
complete -c numalloc-run -n 'not __fish_is_first_token' -a '(__fish_complete_subcommand --fcs-skip=1)' -x
