# own_text.cmake - cmake -DARCHIVE=FILE -DAR=AR -DLD=LD -P own_text.cmake: puts the code of a static
# library's members into a section of its own, numalloc_text. The linker then says where that begins
# and ends (__start_numalloc_text), and the recorder leaves the library's frames out of stacks, as it
# does those of libnumalloc.so by its module. The members stay apart, so that a program takes only
# those that it needs.
set(work ${ARCHIVE}.own_text)
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/in ${work}/out)
file(WRITE ${work}/text.ld "SECTIONS { numalloc_text : { *(.text .text.*) } }\n")
execute_process(COMMAND ${AR} x ${ARCHIVE} WORKING_DIRECTORY ${work}/in COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${AR} t ${ARCHIVE} OUTPUT_VARIABLE members COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[^\n]+" members "${members}")
list(LENGTH members count)
list(REMOVE_DUPLICATES members)
list(LENGTH members different)
if(NOT count EQUAL different)
    message(FATAL_ERROR "${ARCHIVE}: two members have one name; rename a source file")
endif()
foreach(member IN LISTS members)
    execute_process(COMMAND ${LD} -r -T ${work}/text.ld ${work}/in/${member} -o ${work}/out/${member}
        COMMAND_ERROR_IS_FATAL ANY)
endforeach()
list(TRANSFORM members PREPEND ${work}/out/)
file(REMOVE ${ARCHIVE})
execute_process(COMMAND ${AR} qcs ${ARCHIVE} ${members} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE ${work})
