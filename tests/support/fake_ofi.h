/* A provider of libfabric below fabric_ofi that moves nothing and answers as its script says: for
 * cards that our machines lack. It refuses what the real ones refuse, with their codes. One thread.
 *
 * A test that links it wraps the functions of FAKE_OFI_WRAPPED (common/fabric/CMakeLists.txt). */
#ifndef KVR_TESTS_FAKE_OFI_H
#define KVR_TESTS_FAKE_OFI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

/* The numbers of options in libfabric's ABI, also where the headers are too old to name them. */
#define FAKE_CUDA_API       10
#define FAKE_SHARED_MEMORY  11
#define FAKE_RNR_RETRY      (-(0xefa << 16))
#define FAKE_EMULATED_WRITE (-(0xefa << 16) + 2)

struct fake_ofi {
    /* The script; fake_ofi_reset makes it a host with a good card. */
    uint32_t api, version; /* that kvrail was built with; of the library */
    struct fi_info *infos; /* of the host, whatever the provider */
    bool no_hmem;          /* fi_getinfo offers nothing with FI_HMEM */
    int cuda_answer, shared_memory_answer, rnr_answer, emulated_answer; /* 0, or a code */
    int device_answer;   /* to a registration of device memory */
    uint64_t bytes_max;  /* of a registration of host memory: above, -FI_ENOMEM */
    size_t queue_max;    /* larger completion queues are refused */
    bool emulated_write; /* what the card answers */

    /* What was asked. */
    unsigned endpoints; /* that are open */
    unsigned enabled;   /* in all */
    unsigned late;      /* options that came after the endpoint was enabled */
    bool cuda_permitted, shared_memory_permitted; /* of the endpoint that was enabled last */
    size_t rnr_retry;
    size_t queue_size; /* of the queue that was opened last; 0: none was asked for */
};
extern struct fake_ofi fake_ofi;

/* Frees the infos and starts anew. */
void fake_ofi_reset(void);
/* An entry as fi_getinfo of libfabric 2.6 returns it, added at the end of the list. */
struct fi_info *fake_ofi_add_efa(const char *domain);
/* The same card under its other fabric. */
struct fi_info *fake_ofi_add_efa_direct(const char *domain);
struct fi_info *fake_ofi_add_verbs(const char *domain, const char *address);
/* The fabric's name, and the network type of its card's link: "InfiniBand", "Ethernet". */
void fake_ofi_set_fabric(struct fi_info *info, const char *fabric, const char *network_type);
/* Where its card lies: "0000:50:00.0". */
void fake_ofi_set_pci(struct fi_info *info, const char *pci);
/* A port of InfiniBand without an IP address. */
struct fi_info *fake_ofi_add_ib(const char *domain);

#endif
