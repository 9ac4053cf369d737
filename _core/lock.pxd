# What the GIL guards where there is one, and a lock where there is none. Held for a few instructions that run no Python
# code; zero bytes are a free lock. With a GIL all of this is nothing.
cdef extern from *:
    """
    #ifndef PYD_LOCK
    #define PYD_LOCK
    #ifdef Py_GIL_DISABLED
    typedef PyMutex pyd_lock_t;
    #define pyd_lock(lock) PyMutex_Lock(lock)
    #define pyd_unlock(lock) PyMutex_Unlock(lock)
    // Takes what only one thread may have. 0: another one has it.
    static inline int pyd_claim(int* address) { return !__atomic_exchange_n(address, 1, __ATOMIC_ACQUIRE); }
    static inline void pyd_disclaim(int* address) { __atomic_store_n(address, 0, __ATOMIC_RELEASE); }
    // What was written before a flag was set is there for who has seen the flag.
    static inline int pyd_flag(int* address) { return __atomic_load_n(address, __ATOMIC_ACQUIRE); }
    static inline void pyd_set_flag(int* address) { __atomic_store_n(address, 1, __ATOMIC_RELEASE); }
    // Takes a pointer, once.
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
