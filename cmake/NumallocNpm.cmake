# numalloc_npm(<variable> <folder>) - the npm packages that <folder>/package-lock.json pins, installed
# in the build tree once for each state of that file. <variable>: the folder with node_modules, or
# empty where npm is missing or cannot install them.
function(numalloc_npm variable folder)
    find_program(NPM npm)
    get_filename_component(name ${folder} NAME)
    file(SHA256 ${folder}/package-lock.json lock)
    string(SUBSTRING ${lock} 0 16 lock)
    set(packages ${PROJECT_BINARY_DIR}/npm/${name}-${lock})
    if(NPM AND NOT EXISTS ${packages}/installed)
        message(STATUS "npm: installing what ${name} needs")
        file(REMOVE_RECURSE ${packages})
        file(COPY ${folder}/package.json ${folder}/package-lock.json DESTINATION ${packages})
        execute_process(
            COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
            WORKING_DIRECTORY ${packages} RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
        if(result EQUAL 0)
            file(TOUCH ${packages}/installed)
        endif()
    endif()
    if(EXISTS ${packages}/installed)
        set(${variable} ${packages} PARENT_SCOPE)
    else()
        set(${variable} "" PARENT_SCOPE)
    endif()
endfunction()
