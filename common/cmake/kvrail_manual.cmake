# Pages of the manual and completion for shells, which the built programs print from their tables of options.
# Sanitized programs are not installed, and those of another processor do not run here.
function(kvr_manual)
    if(KVRAIL_SANITIZE OR CMAKE_CROSSCOMPILING)
        return()
    endif()
    set(man ${PROJECT_BINARY_DIR}/man)
    set(completion ${PROJECT_BINARY_DIR}/completion)
    set(commands)
    foreach(program IN LISTS ARGN)
        list(APPEND commands COMMAND ${program} --help=man >${man}/${program}.8)
    endforeach()
    foreach(shell IN ITEMS bash zsh fish)
        list(APPEND commands COMMAND kvrail completion ${shell} >${completion}/kvrail.${shell})
    endforeach()
    add_custom_command(OUTPUT ${man}/stamp
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${man} ${completion}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${man} ${completion}
        COMMAND kvrail manual ${man}
        ${commands}
        COMMAND ${CMAKE_COMMAND} -E touch ${man}/stamp
        DEPENDS kvrail ${ARGN}
        COMMENT "Pages of the manual")
    add_custom_target(manual ALL DEPENDS ${man}/stamp)
    install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "*.1")
    install(DIRECTORY ${man}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 FILES_MATCHING PATTERN "*.8")
    install(FILES ${completion}/kvrail.bash RENAME kvrail
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${completion}/kvrail.zsh RENAME _kvrail DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${completion}/kvrail.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    kvr_command_test(build.manual
        COMMAND sh ${PROJECT_SOURCE_DIR}/tests/support/manual_test.sh ${man} ${ARGN})
    kvr_command_test(build.completion
        COMMAND sh ${PROJECT_SOURCE_DIR}/tests/support/completion_test.sh ${completion})
endfunction()
