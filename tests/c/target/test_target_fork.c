// links: base platform sched memory program api process
// with: ../program/double.c
// tsan: 2
// A fork while another thread has the list of idle calls: the child calls the function, too.
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/sample.h"
#include "target/target.c"

static pyd_target_t* target;
static atomic_int is_held;

static void* hold_list(void* unused) {
  pthread_mutex_lock(&target->mutex);
  atomic_store(&is_held, 1);
  usleep(50000);
  pthread_mutex_unlock(&target->mutex);
  return unused;
}

static void use_idle_call(void) {
  const int64_t sizes[] = {4, 4};
  pyd_api_call_t* call;
  CHECK_OK(pyd_target_take(target, sizes, NULL, &call));
  pyd_target_give_back(target, call);
}

static void test_fork(pyd_api_program_t* unused) {
  pthread_t thread;
  int status = -1;
  (void)unused;
  target = pyd_process_number_find(1, pyd_target_retain);
  use_idle_call();  // prepared here: the child allocates nothing
  CHECK(!pthread_create(&thread, NULL, hold_list, NULL));
  while (!atomic_load(&is_held)) usleep(100);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);  // ends a child that waits
    use_idle_call();
    _exit(0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0);
  pthread_join(thread, NULL);
  use_idle_call();
  pyd_target_release(target);
}

int main(void) {
  static const published_t kPublished[] = {{"mul", 1}, {"sized", 2}, {"fail", 3}, {"tail", 4}};
  with_program(kPublished, test_fork);
  return 0;
}
