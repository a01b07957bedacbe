/* A library that tests load into the service (LD_PRELOAD) to simulate a failing disk: fsync and fdatasync of a
 * write-ahead log fail with EIO as long as the file that FAIL_SYNC names exists. Written data stays readable. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd)
{
    const char *control = getenv("FAIL_SYNC");
    char link[64], path[4096];
    ssize_t length;

    if (control == NULL || access(control, F_OK) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path);
    return length > 4 && memcmp(path + length - 4, "-wal", 4) == 0;
}

static int sync_with(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

    if (fails(fd)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int fsync(int fd)
{
    return sync_with("fsync", fd);
}

int fdatasync(int fd)
{
    return sync_with("fdatasync", fd);
}
