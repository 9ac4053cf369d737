# A lock for builds of Python without the GIL; with the GIL, which guards the same data, it does nothing. It is held for
# a few instructions that run no Python code. Zero bytes are a free lock.
cdef extern from *:
    """
    #ifndef PYD_LOCK
    #define PYD_LOCK
    #ifdef Py_GIL_DISABLED
    typedef PyMutex pyd_lock_t;
    #define pyd_lock(lock) PyMutex_Lock(lock)
    #define pyd_unlock(lock) PyMutex_Unlock(lock)
    // Claims an object for this thread. Returns 0 if another thread has claimed it.
    static inline int pyd_claim(int* address) { return !__atomic_exchange_n(address, 1, __ATOMIC_ACQUIRE); }
    static inline void pyd_disclaim(int* address) { __atomic_store_n(address, 0, __ATOMIC_RELEASE); }
    // A thread that reads a set flag also sees the memory that was written before the flag was set.
    static inline int pyd_flag(int* address) { return __atomic_load_n(address, __ATOMIC_ACQUIRE); }
    static inline void pyd_set_flag(int* address) { __atomic_store_n(address, 1, __ATOMIC_RELEASE); }
    // Replaces a pointer by NULL and returns it: of several threads only one gets it.
    static inline void* pyd_take(void** address) { return __atomic_exchange_n(address, (void*)0, __ATOMIC_ACQ_REL); }
    static inline void pyd_count(Py_ssize_t* sum, Py_ssize_t by) { __atomic_add_fetch(sum, by, __ATOMIC_RELAXED); }
    #else
    typedef char pyd_lock_t;
    static inline void pyd_lock(pyd_lock_t* lock) { (void)lock; }
    static inline void pyd_unlock(pyd_lock_t* lock) { (void)lock; }
    static inline int pyd_claim(int* address) { return *address ? 0 : (*address = 1); }
    static inline void pyd_disclaim(int* address) { *address = 0; }
    static inline int pyd_flag(int* address) { return *address; }
    static inline void pyd_set_flag(int* address) { *address = 1; }
    static inline void* pyd_take(void** address) { void* taken = *address; *address = (void*)0; return taken; }
    static inline void pyd_count(Py_ssize_t* sum, Py_ssize_t by) { *sum += by; }
    #endif
    #endif
    """
    ctypedef struct pyd_lock_t:
        pass
    void pyd_lock(pyd_lock_t* lock) noexcept nogil
    void pyd_unlock(pyd_lock_t* lock) noexcept nogil
    bint pyd_claim(int* address) noexcept nogil
    void pyd_disclaim(int* address) noexcept nogil
    bint pyd_flag(int* address) noexcept nogil
    void pyd_set_flag(int* address) noexcept nogil
    void* pyd_take(void** address) noexcept nogil
    void pyd_count(Py_ssize_t* sum, Py_ssize_t by) noexcept nogil
