// The sources of the task system as part of a test, which may have redefined what they call.
#include "sched/affinity.c"
#include "sched/blocking.c"
#include "sched/destroy.c"
#include "sched/events.c"
#include "sched/job.c"
#include "sched/lend.c"
#include "sched/permit.c"
#include "sched/placement.c"
#include "sched/pool.c"
#include "sched/queue.c"
#include "sched/scheduler.c"
#include "sched/share.c"
#include "sched/task.c"
#include "sched/trace.c"
#ifndef HAS_OWN_WORK  // the test includes it by itself
#include "sched/work.c"
#endif
