"""The thread pool as LLVM IR: pthreads, self-scheduling over task numbers, a gate that workers pass to help.

How it works. One loop runs at a time (`busy`); a second concurrent caller, and a loop inside a task, run
serially in their own thread. The caller publishes the loop and opens the *gate*, one 64-bit word

    epoch (high 32 bits) | open (bit 31) | caller is asleep (bit 30) | workers inside (low 30 bits)

Workers enter by counting themselves in while the gate is open, and leave when no task is left. The caller
takes tasks too, then closes the gate and waits until nobody is inside. A worker that wakes too late finds the
gate closed, so the caller never waits for a sleeping thread.

Idle workers spin for a while (first they pause, then they yield: on a busy processor others run), then sleep, each on
a condition variable of its own: its flag `asleep` and the gate are both sequentially consistent, so that either the worker
sees the open gate or the caller sees the sleeper. To wake one takes the caller several microseconds, and the worker some
ten more: a short loop that finds its workers asleep is not worth it and runs serially. Where short loops follow each
other closely, the second wakes them.
"""

from __future__ import annotations

from tilewright.codegen.runtime import pinning_ir

# A loop in the thread that calls; stops at the first task that fails.
SERIAL = """
define i32 @tw_rt_serial_for(ptr %ctx, ptr %body, ptr %env, i64 %n) {
entry:
  %some = icmp sgt i64 %n, 0
  br i1 %some, label %loop, label %good
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %more ]
  %code = call i32 %body(ptr %env, i64 %i)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %more
more:
  %next = add nsw i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %good
failed:
  ret i32 %code
good:
  ret i32 0
}
"""

# Task numbers are handed out in order, so every task before a failing one has been handed out as well: the
# smallest failing number always runs, and its code is the result whatever the number of threads.
_POOL = """
%tw_context = type { i64, ptr, ptr, ptr, ptr }

; What a worker sleeps on, and what others may know of it; no line is shared with another worker.
;                   mutex       condition   asleep (2: called) and inside the gate
%worker = type { [128 x i8], [128 x i8], i32, i32, [56 x i8] }

@pool.workers = internal global [256 x %worker] zeroinitializer, align 64
@pool.lock = internal global [128 x i8] zeroinitializer, align 64      ; pthread_mutex_t
@pool.done = internal global [128 x i8] zeroinitializer, align 64      ; pthread_cond_t: the last worker left
; One line has all that a worker needs to begin.
;                                 gate  limit  body  env  n    grain
@pool.job = internal global { i64, i64, ptr, ptr, i64, i64 } zeroinitializer, align 64
@pool.next = internal global i64 0, align 64
@pool.failed = internal global i64 -1, align 64                        ; (task << 32 | code), unsigned minimum
@pool.busy = internal global i32 0, align 64
@pool.ready = internal global i32 0, align 64
@pool.started = internal global i64 0
@pool.spin = internal global i64 0
@pool.short = internal global i64 0                                    ; work that is not worth waking a thread
@pool.last = internal global i64 0                                     ; when such a loop ended
@pool.cpus = internal global [1024 x i32] zeroinitializer
@pool.cpu_count = internal global i64 0
@pool.cpu_first = internal global i64 0

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)

; Between two looks: at first the thread only pauses, later it lets others run that want its processor.
define internal void @pool.idle(i64 %looks) alwaysinline {
entry:
  %early = icmp ult i64 %looks, PAUSES
  br i1 %early, label %pause, label %yield
pause:
  call void @pool.relax()
  br label %out
yield:
  call i32 @sched_yield()
  br label %out
out:
  ret void
}

define internal i64 @pool.now() {
  %time = alloca { i64, i64 }
  call i32 @clock_gettime(i32 CLOCK_MONOTONIC, ptr %time)
  %nanoseconds.p = getelementptr i64, ptr %time, i64 1
  %seconds = load i64, ptr %time
  %nanoseconds = load i64, ptr %nanoseconds.p
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %nanoseconds
  ret i64 %now
}

define internal ptr @pool.asleep(i64 %index) alwaysinline {
  %place = getelementptr %worker, ptr @pool.workers, i64 %index, i32 2
  ret ptr %place
}

define internal ptr @pool.inside(i64 %index) alwaysinline {
  %place = getelementptr %worker, ptr @pool.workers, i64 %index, i32 3
  ret ptr %place
}

; Takes tasks until none is left.
define internal void @pool.take() {
entry:
  %body = load ptr, ptr getelementptr (i8, ptr @pool.job, i64 16)
  %env = load ptr, ptr getelementptr (i8, ptr @pool.job, i64 24)
  %n = load i64, ptr getelementptr (i8, ptr @pool.job, i64 32)
  %grain = load i64, ptr getelementptr (i8, ptr @pool.job, i64 40)
  br label %fetch
fetch:
  %first = atomicrmw add ptr @pool.next, i64 %grain monotonic
  %some = icmp slt i64 %first, %n
  br i1 %some, label %chunk, label %out
chunk:
  %stop0 = add nsw i64 %first, %grain
  %stop = call i64 @llvm.smin.i64(i64 %stop0, i64 %n)
  br label %task
task:
  %i = phi i64 [ %first, %chunk ], [ %i1, %next ]
  %code = call i32 %body(ptr %env, i64 %i)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %next
next:
  %i1 = add nsw i64 %i, 1
  %again = icmp slt i64 %i1, %stop
  br i1 %again, label %task, label %fetch
failed:
  %number = call i64 @llvm.smin.i64(i64 %i, i64 2147483647)
  %high = shl i64 %number, 32
  %low = zext i32 %code to i64
  %key = or i64 %high, %low
  %old = atomicrmw umin ptr @pool.failed, i64 %key monotonic
  store atomic i64 %n, ptr @pool.next monotonic, align 8
  ret void
out:
  ret void
}

; Is there a loop that worker `index` has not seen and is wanted for? A loop for k helpers takes the first k workers:
; they have processors of their own, and the others sleep on.
define internal i1 @pool.news(i64 %gate, i64 %last, i64 %index) alwaysinline {
  %flag = and i64 %gate, 2147483648
  %open = icmp ne i64 %flag, 0
  %epoch = lshr i64 %gate, 32
  %unseen = icmp ne i64 %epoch, %last
  %limit = load atomic i64, ptr getelementptr (i8, ptr @pool.job, i64 8) monotonic, align 8
  %wanted = icmp slt i64 %index, %limit
  %fresh = and i1 %open, %unseen
  %news = and i1 %fresh, %wanted
  ret i1 %news
}

define internal ptr @pool.worker(ptr %argument) {
entry:
  %index = ptrtoint ptr %argument to i64
  %lock = getelementptr %worker, ptr @pool.workers, i64 %index
  %work = getelementptr %worker, ptr @pool.workers, i64 %index, i32 1
  %asleep = call ptr @pool.asleep(i64 %index)
  %mark = call ptr @pool.inside(i64 %index)
  br label %watch
watch:                                           ; a fresh round of spinning
  %last = phi i64 [ 0, %entry ], [ %last.s, %woken ], [ %epoch, %leave ], [ %epoch, %told ]
  br label %spin
spin:
  %last.s = phi i64 [ %last, %watch ], [ %last.s, %pause ], [ %last.s, %try ]
  %count = phi i64 [ 0, %watch ], [ %count1, %pause ], [ %count, %try ]
  %gate = load atomic i64, ptr @pool.job acquire, align 8
  %news = call i1 @pool.news(i64 %gate, i64 %last.s, i64 %index)
  br i1 %news, label %try, label %wait
wait:
  %limit.spin = load atomic i64, ptr @pool.spin monotonic, align 8
  %patient = icmp ult i64 %count, %limit.spin
  br i1 %patient, label %pause, label %sleep
pause:
  call void @pool.idle(i64 %count)
  %count1 = add i64 %count, 1
  br label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr %lock)
  br label %look
look:                                            ; before each look: who calls after it has to signal
  store atomic i32 1, ptr %asleep seq_cst, align 4
  %gate.s = load atomic i64, ptr @pool.job seq_cst, align 8
  %news.s = call i1 @pool.news(i64 %gate.s, i64 %last.s, i64 %index)
  br i1 %news.s, label %woken, label %doze
doze:
  call i32 @pthread_cond_wait(ptr %work, ptr %lock)
  br label %look
woken:
  store atomic i32 0, ptr %asleep seq_cst, align 4
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %watch
try:
  %epoch = lshr i64 %gate, 32
  %gate1 = add i64 %gate, 1
  %swap = cmpxchg ptr @pool.job, i64 %gate, i64 %gate1 acq_rel acquire
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %help, label %spin
help:
  store atomic i32 1, ptr %mark monotonic, align 4
  call void @pool.take()
  store atomic i32 0, ptr %mark monotonic, align 4
  %before = atomicrmw sub ptr @pool.job, i64 1 acq_rel
  %state = and i64 %before, 2147483647           ; asleep flag and count
  %call = icmp eq i64 %state, 1073741825         ; the caller sleeps and we were the last inside
  br i1 %call, label %told, label %leave
told:
  call i32 @pthread_mutex_lock(ptr @pool.lock)
  call i32 @pthread_cond_signal(ptr @pool.done)
  call i32 @pthread_mutex_unlock(ptr @pool.lock)
  br label %watch
leave:
  br label %watch
}

; Starts workers until there are `want`, if it can (the caller holds `busy`). Signals stay with Python's own threads.
define internal void @pool.start(i64 %want) {
entry:
  %all = alloca [128 x i8], align 16
  %old = alloca [128 x i8], align 16
  %thread = alloca ptr
  %ready = load i32, ptr @pool.ready
  %fresh = icmp eq i32 %ready, 0
  br i1 %fresh, label %initialise, label %begin
initialise:
  call i32 @pthread_mutex_init(ptr @pool.lock, ptr null)
  call i32 @pthread_cond_init(ptr @pool.done, ptr null)
  store i32 1, ptr @pool.ready
  call void @pool.place()
  br label %begin
begin:
  call i32 @sigfillset(ptr %all)
  call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %all, ptr %old)
  br label %check
check:
  %count = load i64, ptr @pool.started
  %more = icmp slt i64 %count, %want
  br i1 %more, label %create, label %out
create:
  %lock = getelementptr %worker, ptr @pool.workers, i64 %count
  %work = getelementptr %worker, ptr @pool.workers, i64 %count, i32 1
  call i32 @pthread_mutex_init(ptr %lock, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  %argument = inttoptr i64 %count to ptr
  %code = call i32 @pthread_create(ptr %thread, ptr null, ptr @pool.worker, ptr %argument)
  %good = icmp eq i32 %code, 0
  br i1 %good, label %created, label %out
created:
  %id = load ptr, ptr %thread
  call i32 @pthread_detach(ptr %id)
  call void @pool.pin(i64 %count, ptr %id)
  %count1 = add i64 %count, 1
  store i64 %count1, ptr @pool.started
  br label %check
out:
  call i32 @pthread_sigmask(i32 SIG_SETMASK, ptr %old, ptr null)
  ret void
}

; Wakes those of the first workers that sleep (the gate is open). Whoever holds its lock will look at the gate again,
; or waits for the signal.
define internal void @pool.rouse(i64 %helpers) {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %next ]
  %more = icmp slt i64 %i, %helpers
  br i1 %more, label %look, label %out
look:
  %asleep.p = call ptr @pool.asleep(i64 %i)
  %asleep = load atomic i32, ptr %asleep.p seq_cst, align 4
  %sleeps = icmp eq i32 %asleep, 1
  br i1 %sleeps, label %claim, label %next
claim:                                           ; one signal is enough until it has looked again
  %swap = cmpxchg ptr %asleep.p, i32 1, i32 2 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %wake, label %next
wake:
  %lock = getelementptr %worker, ptr @pool.workers, i64 %i
  %work = getelementptr %worker, ptr @pool.workers, i64 %i, i32 1
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_mutex_unlock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %work)
  br label %next
next:
  %i1 = add i64 %i, 1
  br label %check
out:
  ret void
}

; Does any of the first workers sleep, and nobody has called it?
define internal i1 @pool.sleepy(i64 %helpers) {
entry:
  br label %check
check:
  %i = phi i64 [ 0, %entry ], [ %i1, %look ]
  %more = icmp slt i64 %i, %helpers
  br i1 %more, label %look, label %none
look:
  %asleep.p = call ptr @pool.asleep(i64 %i)
  %asleep = load atomic i32, ptr %asleep.p monotonic, align 4
  %sleeps = icmp eq i32 %asleep, 1
  %i1 = add i64 %i, 1
  br i1 %sleeps, label %some, label %check
some:
  ret i1 true
none:
  ret i1 false
}

; Waits until no worker is inside the closed gate.
define internal void @pool.join() {
entry:
  %spin.p = load atomic i64, ptr @pool.spin monotonic, align 8
  %limit = call i64 @llvm.smin.i64(i64 %spin.p, i64 PATIENCE)
  br label %spin
spin:
  %count = phi i64 [ 0, %entry ], [ %count1, %pause ]
  %gate = load atomic i64, ptr @pool.job acquire, align 8
  %inside = and i64 %gate, 1073741823
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %out, label %wait
wait:
  %patient = icmp ult i64 %count, %limit
  br i1 %patient, label %pause, label %sleep
pause:
  call void @pool.idle(i64 %count)
  %count1 = add i64 %count, 1
  br label %spin
sleep:
  call void @pool.loosen()
  call i32 @pthread_mutex_lock(ptr @pool.lock)
  atomicrmw or ptr @pool.job, i64 1073741824 seq_cst
  br label %look
look:
  %gate.s = load atomic i64, ptr @pool.job seq_cst, align 8
  %inside.s = and i64 %gate.s, 1073741823
  %empty.s = icmp eq i64 %inside.s, 0
  br i1 %empty.s, label %wake, label %doze
doze:
  call i32 @pthread_cond_wait(ptr @pool.done, ptr @pool.lock)
  br label %look
wake:
  call i32 @pthread_mutex_unlock(ptr @pool.lock)
  br label %out
out:
  ret void
}

define i32 @tw_rt_parallel_for(ptr %ctx, ptr %body, ptr %env, i64 %n, i64 %amount) {
entry:
  %threads = load i64, ptr %ctx
  %several = icmp sgt i64 %threads, 1
  %many = icmp sgt i64 %n, 1
  %worth = and i1 %several, %many
  br i1 %worth, label %claim, label %serial
claim:                                           ; loops inside of tasks only look
  %taken = load atomic i32, ptr @pool.busy monotonic, align 4
  %free = icmp eq i32 %taken, 0
  br i1 %free, label %grab, label %serial
grab:
  %swap = cmpxchg ptr @pool.busy, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %plan, label %serial
plan:
  %tasks = call i64 @llvm.smin.i64(i64 %threads, i64 %n)
  %places = load i64, ptr @pool.cpu_count        ; no more threads than processors to bind them to
  %bound = icmp sgt i64 %places, 0
  %most.p = select i1 %bound, i64 %places, i64 256
  %most = call i64 @llvm.smin.i64(i64 %most.p, i64 256)
  %capped = call i64 @llvm.smin.i64(i64 %tasks, i64 %most)
  %want = sub nsw i64 %capped, 1
  %have = load i64, ptr @pool.started
  %alone = icmp slt i64 %want, 1
  br i1 %alone, label %unclaim, label %look
look:
  %enough = icmp sge i64 %have, %want
  %present = call i64 @llvm.smin.i64(i64 %want, i64 %have)
  %sleepy = call i1 @pool.sleepy(i64 %present)
  %missing = xor i1 %enough, true
  %cold = or i1 %sleepy, %missing
  br i1 %cold, label %ask, label %publish
ask:                                             ; is it worth waking them?
  %short = load atomic i64, ptr @pool.short monotonic, align 8
  %little = icmp slt i64 %amount, %short
  br i1 %little, label %brief, label %call
brief:                                           ; not for one short loop, but for the second of a row
  %before = load atomic i64, ptr @pool.last monotonic, align 8
  %now = call i64 @pool.now()
  %since = sub i64 %now, %before
  %row = icmp ult i64 %since, RECENT
  br i1 %row, label %call, label %pass
pass:
  store atomic i32 0, ptr @pool.busy release, align 4
  %code.b = call i32 @tw_rt_serial_for(ptr %ctx, ptr %body, ptr %env, i64 %n)
  %end = call i64 @pool.now()
  store atomic i64 %end, ptr @pool.last monotonic, align 8
  ret i32 %code.b
call:
  br i1 %enough, label %publish, label %hire
hire:
  call void @pool.start(i64 %want)
  %started = load i64, ptr @pool.started
  %none = icmp eq i64 %started, 0
  br i1 %none, label %unclaim, label %publish
unclaim:
  store atomic i32 0, ptr @pool.busy release, align 4
  br label %serial
publish:
  %staff = load i64, ptr @pool.started
  %helpers = call i64 @llvm.smin.i64(i64 %want, i64 %staff)
  call void @pool.part()
  ; Short loops are handed out task by task, long ones in chunks: 64 a thread keep the balance.
  %pieces = shl i64 %capped, 6
  %grain0 = sdiv i64 %n, %pieces
  %grain = call i64 @llvm.smax.i64(i64 %grain0, i64 1)
  store atomic i64 %helpers, ptr getelementptr (i8, ptr @pool.job, i64 8) monotonic, align 8
  store ptr %body, ptr getelementptr (i8, ptr @pool.job, i64 16)
  store ptr %env, ptr getelementptr (i8, ptr @pool.job, i64 24)
  store i64 %n, ptr getelementptr (i8, ptr @pool.job, i64 32)
  store i64 %grain, ptr getelementptr (i8, ptr @pool.job, i64 40)
  store atomic i64 0, ptr @pool.next monotonic, align 8
  store atomic i64 -1, ptr @pool.failed monotonic, align 8
  %gate = load atomic i64, ptr @pool.job monotonic, align 8
  %epoch = lshr i64 %gate, 32
  %epoch1 = add i64 %epoch, 1
  %high = shl i64 %epoch1, 32
  %open = or i64 %high, 2147483648
  atomicrmw xchg ptr @pool.job, i64 %open seq_cst
  call void @pool.rouse(i64 %helpers)
  call void @pool.take()
  atomicrmw and ptr @pool.job, i64 -2147483649 acq_rel
  call void @pool.join()
  %key = load atomic i64, ptr @pool.failed monotonic, align 8
  store atomic i32 0, ptr @pool.busy release, align 4
  %good = icmp eq i64 %key, -1
  %code0 = trunc i64 %key to i32
  %code = select i1 %good, i32 0, i32 %code0
  ret i32 %code
serial:
  %code.s = call i32 @tw_rt_serial_for(ptr %ctx, ptr %body, ptr %env, i64 %n)
  ret i32 %code.s
}

; Processors to bind workers to (none: workers float), how often an idle thread looks before it sleeps, and what work is
; not worth waking it.
define void @tw_rt_configure(ptr %cpus, i64 %count, i64 %spin, i64 %short) {
entry:
  %kept = call i64 @llvm.smin.i64(i64 %count, i64 1024)
  %bytes = mul i64 %kept, 4
  call void @llvm.memcpy.p0.p0.i64(ptr @pool.cpus, ptr %cpus, i64 %bytes, i1 false)
  store i64 %kept, ptr @pool.cpu_count
  store atomic i64 %spin, ptr @pool.spin monotonic, align 8
  store atomic i64 %short, ptr @pool.short monotonic, align 8
  ret void
}

define i64 @tw_rt_workers() {
  %count = load i64, ptr @pool.started
  ret i64 %count
}

; In a forked child there are no workers, and locks may have been held by threads that do not exist any more.
define internal void @pool.after_fork() {
  store i32 0, ptr @pool.ready
  store i64 0, ptr @pool.started
  store i64 0, ptr @pool.job
  store i32 0, ptr @pool.busy
  call void @llvm.memset.p0.i64(ptr @pool.workers, i8 0, i64 WORKERS_BYTES, i1 false)
  ret void
}
"""

PAUSES = 512  # looks of an idle thread before it begins to yield
_WORDS = {
    "PAUSES": PAUSES,
    "PATIENCE": PAUSES + 64,  # looks of a caller that has nothing left to do, before it sleeps
    "RECENT": 100_000,  # ns between the short loops of a row
    "WORKERS_BYTES": 256 * 320,
}

# What a spinning thread does between two looks, by architecture (declaration, call).
_RELAX = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}


def text(triple: str) -> str:
    """IR of the pool for a POSIX target."""
    linux = "linux" in triple
    declaration, call = _RELAX.get(triple.split("-", 1)[0], ("", ""))
    relax = f"{declaration}\ndefine internal void @pool.relax() alwaysinline {{\n  {call}\n  ret void\n}}\n"
    words = _WORDS | {"SIG_SETMASK": 2 if linux else 3, "CLOCK_MONOTONIC": 1 if linux else 6}
    pool = _POOL
    for word, value in words.items():
        pool = pool.replace(word, str(value))
    return SERIAL + pool + (pinning_ir.LINUX if linux else pinning_ir.NONE) + relax
