/* Stands in for libFuzzer where it is not compiled in: runs every file of the given folders once.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The buffer is exactly as large as the file, so that a sanitizer sees the first byte read past it.
 */
static int run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    long size;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
        perror(path);
        exit(1);
    }
    rewind(file);
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    (void)LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    return 1;
}

static int run_folder(const char *folder)
{
    struct dirent **names;
    int runs = 0, count = scandir(folder, &names, NULL, alphasort);
    char path[4096];

    if (count < 0) {
        perror(folder);
        exit(1);
    }
    for (int i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            runs += run_file(path);
        free(names[i]);
    }
    free(names);
    return runs;
}

int main(int argc, char **argv)
{
    int runs = 1;

    (void)LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    for (int i = 1; i < argc; i++)
        runs += run_folder(argv[i]);
    printf("%d inputs\n", runs);
    return 0;
}
