// Structures of callers that begin with their size in bytes and grow at their ends. A caller that was built with an
// older header passes fewer members than this code knows, so that
// - the members of the first version are required: the least size is PYD_SIZE_UP_TO() its last member, not sizeof;
// - each later member is read only where the caller's size covers it.
#ifndef PYD_BASE_SIZED_H_
#define PYD_BASE_SIZED_H_

#include <stddef.h>

// Bytes of |type| from its beginning to the end of |member|, without padding after it.
#define PYD_SIZE_UP_TO(type, member) (offsetof(type, member) + sizeof(((const type*)0)->member))

#endif  // PYD_BASE_SIZED_H_
