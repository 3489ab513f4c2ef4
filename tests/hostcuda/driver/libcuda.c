/* A CUDA driver, libcuda.so.1, for machines without a GPU.
 *
 * Device memory is host memory in mappings of its own, streams are queues, and kernels are functions for this CPU that
 * run one block at a time.  One lock serialises all of it.  This is one translation unit; the files, in order:
 *
 *     base.c       types, errors, options, counters, the lock
 *     objects.c    contexts, streams, events, allocations: what they are, and which handles are valid
 *     memory.c     allocations, pools, page protection
 *     images.c     object files with code for this CPU, which stand for cubins
 *     kernels.c    blocks and threads, barriers, faults
 *     arithmetic.c functions that kernels call
 *     streams.c    queues of work and the order it is done in
 *     capture.c    stream capture and graphs
 *     control.c    what the Python side calls: hostcuda_...
 *     api_*.c      what CUDA's users call: cu...
 */
#include "base.c"
#include "objects.c"
#include "memory.c"
#include "images.c"
#include "kernels.c"
#include "arithmetic.c"
#include "streams.c"
#include "capture.c"
#include "control.c"
#include "api_context.c"
#include "api_memory.c"
#include "api_stream.c"
#include "api_code.c"
