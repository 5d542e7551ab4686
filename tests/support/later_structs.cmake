# Writes the header of a later release: FROM with 64 bytes more at the end of each struct that says its
# size, as TO. The tests build libkvrail with it.
file(READ ${FROM} text)
foreach(name IN ITEMS identity allocation region source_options source_address target_options event)
    string(REGEX REPLACE "(\nstruct kvrail_${name} {\n[^}]*)};" "\\1    uint64_t later[8];\n};" grown "${text}")
    if(grown STREQUAL text)
        message(FATAL_ERROR "${FROM} has no struct kvrail_${name}")
    endif()
    set(text "${grown}")
endforeach()
file(WRITE ${TO} "${text}")
