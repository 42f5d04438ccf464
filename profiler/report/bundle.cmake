# bundle.cmake - makes the page of `numalloc-dump html`: cmake -DSOURCES=DIR -DOUTPUT=FILE -P bundle.cmake
#
# The modules of SOURCES/src are put into one script, each as a function that gives back what it
# exports, after those that it imports; then style and script go into SOURCES/page.html. Nothing but
# CMake is needed. What a module may write is little, and all else is refused:
#   import { name, other } from './path.js';      one line
#   export function, export async function, export class, export const
# The text is otherwise taken as it is: no list or variable syntax in it is looked at.
cmake_minimum_required(VERSION 3.25)
set(script "'use strict';\n")

# The variable of a module: its path below src/.
function(name_of path variable)
    file(RELATIVE_PATH name ${SOURCES}/src ${path})
    string(REGEX REPLACE "[^a-z0-9]" "_" name ${name})
    set(${variable} module_${name} PARENT_SCOPE)
endfunction()

# Appends a module to `script`, after those that it imports.
function(add_module path)
    get_property(state GLOBAL PROPERTY state_of_${path})
    if(state STREQUAL "done")
        return()
    elseif(state STREQUAL "begun")
        message(FATAL_ERROR "report: ${path} imports itself through others")
    endif()
    set_property(GLOBAL PROPERTY state_of_${path} begun)
    file(READ ${path} text)
    set(text "\n${text}") # so that each line follows one

    # Imports: `import { a, b } from './x.js'` becomes `const { a, b } = module_x`.
    set(line "import [{] [A-Za-z0-9_, ]+ [}] from '[.]+/[^']+'")
    string(REGEX MATCHALL "${line}" imports "${text}")
    cmake_path(GET path PARENT_PATH folder)
    foreach(import IN LISTS imports)
        string(REGEX REPLACE ".*[{] (.*) [}] from '(.*)'" "\\1" names "${import}")
        string(REGEX REPLACE ".*[{] (.*) [}] from '(.*)'" "\\2" from "${import}")
        cmake_path(ABSOLUTE_PATH from BASE_DIRECTORY ${folder} NORMALIZE)
        add_module(${from})
        name_of(${from} module)
        get_property(offered GLOBAL PROPERTY exports_of_${from})
        string(REPLACE ", " ";" asked "${names}")
        foreach(name IN LISTS asked)
            if(NOT name IN_LIST offered)
                message(FATAL_ERROR "report: ${path} imports '${name}', which ${from} does not export")
            endif()
        endforeach()
        string(REPLACE "${import}" "const { ${names} } = ${module}" text "${text}")
    endforeach()

    # Exports: named at the end of the function.
    set(what "(async function|function|class|const) ([A-Za-z0-9_]+)")
    string(REGEX MATCHALL "\nexport ${what}" exports "${text}")
    list(TRANSFORM exports REPLACE "^\nexport ${what}$" "\\2")
    set_property(GLOBAL PROPERTY exports_of_${path} "${exports}")
    list(JOIN exports ", " exports)
    string(REGEX REPLACE "\nexport ${what}" "\n\\1 \\2" text "${text}")
    if(text MATCHES "\n(import|export) [^\n]*")
        message(FATAL_ERROR "report: ${path}: bundle.cmake does not know this form: ${CMAKE_MATCH_0}")
    endif()

    name_of(${path} module)
    set(script "${script}const ${module} = (() => {${text}return { ${exports} };\n})();\n" PARENT_SCOPE)
    set_property(GLOBAL PROPERTY state_of_${path} done)
endfunction()

add_module(${SOURCES}/src/main.js)
file(READ ${SOURCES}/src/style.css style)
file(READ ${SOURCES}/page.html page)

# What would end the element that holds it.
string(FIND "${script}" "</script" script_end)
string(FIND "${style}" "</style" style_end)
if(NOT script_end EQUAL -1 OR NOT style_end EQUAL -1)
    message(FATAL_ERROR "report: the sources hold a closing tag and cannot be put inline")
endif()
foreach(part IN ITEMS style script)
    string(TOUPPER "@${part}@" place)
    string(FIND "${page}" "${place}" at)
    string(LENGTH "${place}" length)
    math(EXPR after "${at} + ${length}")
    string(SUBSTRING "${page}" 0 ${at} before)
    string(SUBSTRING "${page}" ${after} -1 rest)
    set(page "${before}${${part}}${rest}")
endforeach()
file(WRITE ${OUTPUT} "${page}")
