/* embed.S - the page as bytes in read-only data; a zero byte ends it as a string. */
    .section .rodata
    .global na_report_page
    .global na_report_page_end
na_report_page:
    .incbin PAGE
na_report_page_end:
    .byte 0
    .section .note.GNU-stack, "", %progbits
