#include "base/small_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool kvr_small_file_line(const char *path, char *ret_text, size_t capacity)
{
    FILE *file = fopen(path, "re");
    bool read;

    if (file == NULL)
        return false;
    read = fgets(ret_text, (int)capacity, file) != NULL;
    fclose(file);
    if (read)
        ret_text[strcspn(ret_text, "\n")] = '\0';
    return read;
}

long long kvr_small_file_number(const char *path)
{
    char text[32];

    return kvr_small_file_line(path, text, sizeof(text)) ? strtoll(text, NULL, 10) : 0;
}
