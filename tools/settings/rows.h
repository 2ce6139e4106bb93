/* The rows of the table of settings: one row for each option of the command. Included with two definitions of SETTING:
 * for the struct (options.h) and for the table (table.c). Flags, YAML keys, --help, the manual page, a run's
 * configuration and the comparison between ranks all use these rows.
 *
 * SETTING(kind, field, "option", commands, use, "ARGUMENT", default, least, most, help...)
 * kind      TEXT, CHOICE, INTEGER, REAL, FLAG, NAMED (runtime/base/setting.h)
 * commands  the commands that take the option
 * use       RUN: part of a run's configuration, the same on all ranks; LOCAL: likewise, but ranks may differ; NONE: not
 *           part of it
 * ARGUMENT  shown by help; for CHOICE the words, for NAMED the library's list of names; "[=NAME]" of a TEXT may be left
 *           out, which gives the text "this"
 * default   as text; NULL: none, or determined by the command
 * least, most  range of a number
 * help      {commands, "text"}...: texts for some commands only; commands 0: for all */
SETTING(TEXT, data, "data", SL__TRAIN | SL__EVAL | MEASURES | SL__GRAPH | SL__LESSON, LOCAL, "DIR|FILES", NULL, 0, 0,
        {SL__LESSON,
         "folder of IDX files that are copied into DIR/data if the lesson reads images; by default that of "
         "Debian's package dataset-fashion-mnist; if that is missing, DIR gets no images"},
        {0, ""}, /* the text of each kind of data */
        {SL__EVAL, "by default the run's"}, {SL__BENCH | SL__CALIBRATE | SL__GRAPH, "by default synthetic data"})
SETTING(REAL, val_fraction, "val-fraction", SL__TRAIN | SL__TOKENIZE, RUN, "F", "0.1", 0, 0.9,
        {0, "share of the training images, tokens or texts to use for validation"}, {SL__TOKENIZE, "by default none"})
SETTING(TEXT, augment, "augment", SL__TRAIN, RUN, "LIST", "none", 0, 0,
        {0,
         "change training images at random: mirror them (flip), shift them by up to N pixels (crop=N), or both "
         "(crop=4,flip)"})
SETTING(TEXT, image, "image", MEASURES | SL__GRAPH | SL__SIMULATE | SL__PLAN, NONE, "HxWxC", NULL, 0, 0,
        {0, "size of synthetic images (default: the model's)"})
SETTING(INTEGER, classes, "classes", MEASURES | SL__GRAPH | SL__SIMULATE | SL__PLAN, NONE, "N", NULL, 1, 1e6,
        {0, "classes of synthetic images (default: the model's)"})
SETTING(INTEGER, length, "length", BUILDS | SL__GENERATE | SL__EVAL, RUN, "N", NULL, 1, 1e6,
        {SL__GENERATE | SL__EVAL, "tokens in a window of a language model (default: as in training)"},
        {0, "tokens in a window of a language model (default: the model's)"})

SETTING(INTEGER, steps, "steps", SL__TRAIN | SL__BENCH | SL__SIMULATE, RUN, "N", NULL, 1, ANY,
        {SL__TRAIN, "stop after N steps"}, {SL__SIMULATE, "simulate N steps (default 5)"},
        {SL__BENCH, "measure N steps (default: as many as take 5 seconds)"})
SETTING(INTEGER, epochs, "epochs", SL__TRAIN, RUN, "N", NULL, 1, 1e9,
        {0, "stop after N passes over the training samples (default: the model's; with --until 5 times as many)"})
SETTING(TEXT, until, "until", SL__TRAIN, RUN, "MEASURE=BOUND", NULL, 0, 0,
        {0,
         "stop once validation reaches accuracy=A or loss=L; fail if it does not within --steps or --epochs"})
SETTING(REAL, stall_timeout, "stall-timeout", SL__TRAIN | SL__EVAL | SL__BENCH, NONE, "SECONDS", "60", 0, 1e6,
        {0,
         "end the job after SECONDS without progress, and name the late ranks; warn of a call on a file that takes as "
         "long (0: never)"})
SETTING(REAL, disk_timeout, "disk-timeout", SL__TRAIN | SL__EVAL | SL__BENCH, NONE, "SECONDS", NULL, 1, 1e6,
        {0,
         "end the job if one call on a file keeps it waiting for SECONDS (default: 10 times --stall-timeout, at least "
         "600; never if that is 0)"})
SETTING(INTEGER, eval_every, "eval-every", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0, "validate every N steps (default: every epoch)"})
SETTING(INTEGER, log_every, "log-every", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0, "write a line of metrics.jsonl every N steps (default: every tenth of an epoch)"})
SETTING(INTEGER, checkpoint_every, "checkpoint-every", SL__TRAIN, RUN, "N", NULL, 0, ANY,
        {0,
         "write a checkpoint every N steps, and after the last step; 0: only after the last step or "
         "--checkpoint-minutes (default: at each validation)"})
SETTING(REAL, checkpoint_minutes, "checkpoint-minutes", SL__TRAIN | SL__SCALE, RUN, "M", "10", 0, 1e9,
        {SL__TRAIN, "write a checkpoint if the last one is M minutes old (0: never for this reason)"},
        {SL__SCALE, "with --lost-node: the run writes a checkpoint every M minutes"})
SETTING(
    INTEGER, verify_every, "verify-every", SL__TRAIN, RUN, "N", "0", 0, ANY,
    {0,
     "on several ranks: compare a digest of the ranks' parameters and optimizer state every N steps, before each "
     "validation and before each checkpoint; where one differs, go back to the last checkpoint (0: never)"})
SETTING(CHOICE, on_spike, "on-spike", SL__TRAIN, RUN, "stop|rollback|ignore", "ignore", 0, 0,
        {0,
         "if the loss leaps above its recent values or is not finite: stop (exit code 65), or go back to a checkpoint "
         "and skip this batch and the one before"})
SETTING(INTEGER, keep, "keep", SL__TRAIN, RUN, "N", "3", 1, 1e6, {0, "keep the N newest checkpoints"})
SETTING(INTEGER, batch, "batch", (RUNS | SL__CALIBRATE | SL__GRAPH | SL__SIMULATE | SL__PLAN) & ~SL__GENERATE, RUN, "N",
        NULL, 1, 1e9, {SL__PLAN, "images or windows per step, over all ranks (default: chosen)"},
        {SL__EVAL | SL__PREDICT, "images or windows at a time, over all ranks (default: as in training)"},
        {0, "images or windows per step, over all ranks (default: the model's)"})
SETTING(INTEGER, seed, "seed", SL__TRAIN | SL__GENERATE | MEASURES | SL__IMPORT, RUN, "N", "1", 0, ANY,
        {SL__TRAIN | MEASURES, "seed for initial weights, sample order and dropout"},
        {SL__GENERATE, "seed for drawing tokens"}, {SL__IMPORT, "seed for choosing the test images"})

SETTING(NAMED, rate_schedule, "rate-schedule", SL__TRAIN, RUN, sl_rate_names, NULL, 0, 0,
        {0, "shape of the learning rate over the steps (default: the model's)"})
SETTING(INTEGER, warmup, "warmup", SL__TRAIN, RUN, "N", NULL, 0, ANY,
        {0, "raise the learning rate from 0 during the first N steps (default: the model's share of all steps)"})
SETTING(INTEGER, rate_step, "rate-step", SL__TRAIN, RUN, "N", NULL, 1, ANY,
        {0,
         "with --rate-schedule=step: multiply the rate by --rate-gamma every N steps after the warm-up (default: a "
         "third of all steps)"})
SETTING(REAL, rate_gamma, "rate-gamma", SL__TRAIN, RUN, "G", "0.1", 0, 1,
        {0, "with --rate-schedule=step: factor of the rate"})
SETTING(REAL, rate_floor, "rate-floor", SL__TRAIN, RUN, "F", "0", 0, 1,
        {0, "with --rate-schedule=linear or cosine: final rate, as a share of the largest rate"})
#include "codelets/training_rows.def" /* settings of training: rows of the library */

SETTING(INTEGER, leaves, "leaves", BUILDS, RUN, "N", NULL, 1, 1e6,
        {SL__PLAN, "cut the batch into N leaves, the units of the reduction tree (default: chosen)"},
        {0, "cut the batch into N leaves, the units of the reduction tree (default: for each "
            "data rank of --mesh one leaf per micro-batch, or a multiple of that, so that every rank has a leaf)"})
SETTING(INTEGER, micro_batches, "micro-batches", BUILDS, RUN, "M", NULL, 1, 1e6,
        {SL__PLAN,
         "gradient accumulation: compute the leaves in M groups, one after another, with memory for one group "
         "(default: chosen)"},
        {0,
         "gradient accumulation: compute the leaves in M groups, one after another, with memory for one group; M must "
         "divide the leaves (default 1; with --mesh pipe=N: 4 N, or fewer so that they divide the samples or leaves of "
         "a data rank)"})
SETTING(INTEGER, shards, "shards", BUILDS, RUN, "N", NULL, 1, 1e6,
        {SL__PLAN, "cut the batch into N parts, each computed by its own tasks (default: chosen)"},
        {0,
         "cut the batch into N parts, each computed by its own tasks; N must be a multiple of the leaves (default: 1 "
         "to 8 for each leaf, so that each has at least 64 samples, 128 tokens or, for resnet and vit, 224x224 "
         "pixels)"})
SETTING(CHOICE, plan, "plan", BUILDS & ~(SL__PLAN | SL__SIMULATE), RUN, "portable|machine", NULL, 0, 0,
        {0,
         "leaves and shards that no option gives: the same on all machines (portable, the default), or those with the "
         "shortest predicted step on this machine (machine); the bits depend on them, and --resume keeps them"})
SETTING(INTEGER, row_blocks, "row-blocks", BUILDS, RUN, "N", NULL, 1, 1024,
        {SL__PLAN, "cut large weights into N blocks of rows (default: chosen)"},
        {0, "cut large weights into N blocks of rows (default 1)"})
SETTING(TEXT, balance, "balance", SL__TRAIN | SL__BENCH, RUN, "even|auto|N,N,...", "even", 0, 0,
        {0,
         "leaves of each rank: even: the same number; auto: by each rank's speed in the first steps; N,N,...: these "
         "numbers (the bits are the same)"})

SETTING(NAMED, allreduce, "allreduce", SL__TRAIN | SL__BENCH, RUN, sl_exchange_names, "tree", 0, 0,
        {0, "sum over ranks by a fixed tree (the same bits on any number of ranks) or by MPI_Iallreduce (other "
            "rounding)"})

SETTING(TEXT, compress, "compress", SL__TRAIN | SL__BENCH, RUN, "none|bf16|topk[=F]", "none", 0, 0,
        {0,
         "gradients sent between nodes: none: uncompressed; bf16: half the bytes; topk: only the largest, a share F of "
         "them (default 0.01; more during --warmup), the others later. With bf16 and topk the bits depend on the "
         "number of ranks"})
SETTING(TEXT, sync, "sync", SL__TRAIN | SL__BENCH, RUN, "step|local:H|diloco:H", "step", 0, 0,
        {0,
         "what the ranks exchange, and when: step: gradients in each step; local:H: every H steps, parameters and "
         "optimizer state become their mean over the ranks; diloco:H: the same, but an outer optimizer with momentum "
         "moves the parameters towards their mean. Between two exchanges of local and diloco each rank trains on its "
         "own samples, and the bits depend on the number of ranks"})
SETTING(INTEGER, zero, "zero", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE, RUN, "STAGE", "0", 0, 3,
        {0,
         "data of which each rank keeps one share, not all (ZeRO): 0: none; 1 or 2: optimizer state and gradients; 3: "
         "parameters, too; a rank fetches other ranks' parameters when it uses them. With --mesh, the ranks with the "
         "same part of the model (data=N) divide its data. The bits are the same"})

SETTING(
    TEXT, mesh, "mesh", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE | SL__PLAN, RUN, "data=N,pipe=N,tensor=N",
    NULL, 0, 0,
    {0,
     "how the ranks divide a step: the samples (data), the layers (pipe), as stages of a pipeline that work on "
     "different micro-batches, or the products within a layer (tensor). With the same --folds the bits are the same "
     "(default: the samples)"})
SETTING(INTEGER, stage, "stage", SL__GRAPH, NONE, "S", "0", 0, 127,
        {0, "with --mesh: of the ranks that share samples, show the tasks of rank S (stage * tensor + part)"})
SETTING(
    CHOICE, pipe_order, "pipe-order", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE | SL__PLAN, RUN,
    "1f1b|gpipe|zero-bubble|eager-1f1b|auto", NULL, 0, 0,
    {0,
     "with --mesh pipe=N: the order of passes. 1f1b (default): each backward pass as soon as it can run, with "
     "memory for N micro-batches at most; gpipe: all forward passes first; zero-bubble: as 1f1b, but a stage "
     "computes gradients of weights while it would wait; eager-1f1b: as 1f1b, but forward passes run up to twice as "
     "far ahead, so that messages are hidden on a slow network; auto: the one of them, gpipe aside, whose predicted "
     "step is the fastest and fits into memory"})
SETTING(TEXT, stages, "stages", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE, RUN, "LIST", "auto", 0, 0,
        {0,
         "with --mesh pipe=N: how the layers are cut into stages. auto: so that the slowest stage is as fast as "
         "possible; numbers (2,1): the share of the computation that each stage gets; names of layers (h.4,h.8): the "
         "layers with which all stages but the first begin, as starling graph names them. With --pipe-chunks V, the "
         "list is for the N V chunks. The bits are the same"})
SETTING(INTEGER, pipe_chunks, "pipe-chunks", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE | SL__PLAN, RUN, "V",
        NULL, 1, 64,
        {0,
         "with --mesh pipe=N: cut the layers of each stage into V chunks (interleaved), so that the bubble is V times "
         "smaller and V times as much moves between stages; with every order but gpipe N must divide the micro-batches "
         "(default 1)"})
SETTING(INTEGER, pipe_parts, "pipe-parts", SL__TRAIN | SL__BENCH | SL__GRAPH | SL__SIMULATE | SL__PLAN, RUN, "P", NULL,
        1, 64,
        {0,
         "with --mesh pipe=N: send the activations of each shard from stage to stage in P messages, so that copies "
         "from and to GPUs overlap the network (default 1)"})

SETTING(INTEGER, plan_zero, "zero", SL__PLAN, NONE, "STAGE", NULL, 0, 3,
        {0, "propose only plans of this stage of ZeRO (0 to 3); default: 0, 1 and, on several nodes, 3"})

SETTING(TEXT, sched, "sched", RUNS | SL__INFO | SL__CALIBRATE | SL__SIMULATE | SL__PLAN, LOCAL, "NAME", NULL, 0, 0,
        {SL__PLAN, "scheduling policy (default: chosen)"},
        {0, "scheduling policy (default $STARPU_SCHED, else the first of --sched-lib, else lws)"})
SETTING(TEXT, sched_lib, "sched-lib", RUNS | SL__INFO | SL__CALIBRATE | SL__COMPARE | SL__SIMULATE, LOCAL, "FILE.so",
        NULL, 0, 0,
        {0, "a shared library with scheduling policies of your own (default $STARPU_SCHED_LIB)"})
SETTING(
    TEXT, workers, "workers", MACHINE, LOCAL, "N|cpu|gpu|both|auto", NULL, 0, 0,
    {SL__GRAPH,
     "workers of the predicted schedule: N CPU workers (default: all cores), or only the GPUs of --gpus (gpu)"},
    {0,
     "which workers compute: N CPU workers and the GPUs, CPU workers only (cpu), GPUs only (gpu), all cores and GPUs "
     "(both), or the fastest of these in the first steps of training (auto); default: train, eval, generate, predict "
     "and bench use GPUs only, if there are any and none of --sched, --sched-lib and --threads-per-worker is given; "
     "plan tries all; other commands use both; results are bit-identical"})
SETTING(INTEGER, import_threads, "workers", SL__IMPORT, NONE, "N", NULL, 1, 4096,
        {0, "threads that convert images (default: all cores)"})
SETTING(INTEGER, threads_per_worker, "threads-per-worker", MACHINE, LOCAL, "K", NULL, 1, 1024,
        {0, "cores per worker: each worker leads a team of K threads (default: the least that uses all cores)"})
SETTING(INTEGER, gpus, "gpus", RUNS | SL__CALIBRATE | SL__INFO | SL__GRAPH | SL__SIMULATE | SL__PLAN, LOCAL, "N", NULL,
        0, 1024, {SL__GRAPH, "GPUs of the predicted schedule (default: all of --machine, else none)"},
        {0, "GPUs of each rank (default: its share of all)"})
SETTING(REAL, gpu_memory, "gpu-memory", RUNS | SL__CALIBRATE | SL__GRAPH | SL__SIMULATE | SL__PLAN, LOCAL, "MB", NULL,
        0.001, 1e9, {SL__PLAN, "memory of each GPU that a plan may use (default: the machine's)"},
        {SL__GRAPH,
         "memory of each GPU in the predicted schedule (default: that of --machine, else unlimited); also prints what "
         "must be copied to fit into it"},
        {0,
         "use at most MB million bytes of each GPU's memory (default: all that is free); data that do not fit stay in "
         "host memory and are copied as planned"})
SETTING(
    CHOICE, gpu_kernels, "gpu-kernels", RUNS | SL__CALIBRATE | SL__GRAPH | SL__SIMULATE | SL__PLAN, RUN,
    "exact|fast|tf32", "exact", 0, 0,
    {0,
     "exact: GPUs compute the same bits as CPUs, so any worker may run any task; fast: only GPUs compute matrix "
     "products, by cuBLAS, with other rounding; tf32: like 'fast', but tensor cores also multiply fp32 numbers, which "
     "they round to TF32"})
SETTING(CHOICE, gpu_eviction, "gpu-eviction", RUNS | SL__CALIBRATE | SL__SIMULATE, LOCAL, "plan|lru", NULL, 0, 0,
        {0, "choose which data leave a full GPU's memory by plan (default) or by StarPU's LRU"})
SETTING(CHOICE, placement, "placement", RUNS | SL__SIMULATE, LOCAL, "policy|plan", NULL, 0, 0,
        {0,
         "with GPUs, run each task on the memory node that the predicted schedule chose (plan: far fewer copies "
         "between several GPUs), or where the scheduling policy puts it; default: plan where a rank has several GPUs "
         "and no policy is named, and never under heteroprio; the bits are the same"})
SETTING(TEXT, offload, "offload", RUNS | SL__CALIBRATE, LOCAL, "disk:DIR", NULL, 0, 0,
        {0,
         "keep parameters, optimizer state and temporaries in memory-mapped files in DIR, so that they may exceed the "
         "memory"})
SETTING(CHOICE, kernels, "kernels", RUNS | SL__CALIBRATE | SL__INFO, RUN, "base|avx2|avx512|neon", NULL, 0, 0,
        {0, "instruction set of the CPU kernels (default: the best that this CPU has; neon: on arm64)"})
SETTING(CHOICE, bf16_sums, "bf16-sums", BUILDS & ~SL__PLAN, RUN, "pairs|blocks", NULL, 0, 0,
        {0,
         "order in which products of bf16 add up: as AVX512-BF16 does (pairs) or as AMX does (blocks). The two give "
         "different bits; each gives the same bits on every CPU (default: blocks if all ranks' CPUs have AMX and no "
         "GPU takes part, else pairs)"})
SETTING(CHOICE, products, "products", RUNS | SL__CALIBRATE, RUN, "own|openblas|auto", NULL, 0, 0,
        {0,
         "whose products of matrices the layers linear and conv2d use in fp32 on CPUs: Starling's own or OpenBLAS's; "
         "auto: OpenBLAS's if the kernels have no fused multiply-adds (base) and all ranks measure it to be faster. "
         "The bits differ, and those of OpenBLAS depend on its version and on the kind of CPU (default own)"})
SETTING(FLAG, calibrate, "calibrate", SL__TRAIN | SL__BENCH, RUN, NULL, NULL, 0, 0,
        {SL__TRAIN | SL__BENCH, "let StarPU refine its performance models, which dm* policies need, as it runs"},
        {SL__COMPARE, "run 'starling calibrate' first, even if the performance models have enough samples"})
SETTING(FLAG, uncalibrated, "uncalibrated", SL__COMPARE, NONE, NULL, NULL, 0, 0,
        {0, "do not calibrate: compare even if performance models lack samples, and mark the result"})
SETTING(TEXT, machine, "performance-models", RUNS | SL__CALIBRATE, NONE, "NAME", NULL, 0, 0,
        {0,
         "use the performance models filed under NAME (default $STARPU_HOSTNAME, else a name made from processor, "
         "cores, kernels and threads per worker)"})
SETTING(TEXT, described, "machine", SL__GRAPH | SL__SIMULATE | SL__COMPARE | SL__SCALE | SL__PLAN, NONE, "NAME|FILE",
        NULL, 0, 0,
        {SL__PLAN,
         "the machine to train on: one that comes with Starling ('starling info --machines' lists them), or a file "
         "(docs/reference/machines.md); default: this machine, which is measured first"},
        {SL__COMPARE, "compare on a simulated machine ('starling simulate'), named as there, in place of this one"},
        {SL__SCALE, "with --nodes: the machine to simulate, named as for simulate"},
        {SL__SIMULATE,
         "the machine to simulate: one that comes with Starling ('starling info --machines' lists them), or a file "
         "(docs/reference/machines.md)"},
        {SL__GRAPH,
         "predict the schedule of one node of this machine, with all its cores and GPUs: one that comes with Starling "
         "('starling info --machines' lists them), or a file (docs/reference/machines.md)"})
SETTING(TEXT, shown, "machine", SL__INFO, NONE, "[=NAME|FILE]", NULL, 0, 0,
        {0,
         "print the description of this machine as YAML (docs/reference/machines.md); or that of one that comes with "
         "Starling, or of a file, which is checked"})
SETTING(FLAG, machines, "machines", SL__INFO, NONE, NULL, NULL, 0, 0, {0, "list the machines that come with Starling"})
SETTING(FLAG, network, "network", SL__CALIBRATE, NONE, NULL, NULL, 0, 0,
        {0,
         "under mpiexec: measure latency and bandwidth between the ranks instead, and print them as the network "
         "section of a machine's description (docs/reference/machines.md)"})
SETTING(INTEGER, samples, "samples", SL__CALIBRATE, NONE, "N", NULL, 1, 1e6,
        {0, "run until each kind of task has N accepted samples (default 10, as many as StarPU requires)"})
SETTING(INTEGER, most_steps, "most-steps", SL__CALIBRATE, NONE, "N", "1000", 1, ANY,
        {0, "give up after N steps, and list the kinds of tasks that lack samples"})

SETTING(TEXT, init, "init", SL__TRAIN, LOCAL, "FILE|DIR", NULL, 0, 0,
        {0, "begin with these weights: Starling's, Hugging Face's or torchvision's"})
SETTING(FLAG, new_head, "new-head", SL__TRAIN, RUN, NULL, NULL, 0, 0,
        {0, "with --init: initialise a new classifier, for other classes"})
SETTING(CHOICE, to, "to", SL__CONVERT, NONE, "hf|torchvision|starling", NULL, 0, 0,
        {0, "write the names and the layout of this library"})
SETTING(TEXT, model_name, "model", SL__CONVERT, NONE, "NAME", NULL, 0, 0,
        {0, "the weights belong to this model (default: found by their tensors)"})
SETTING(NAMED, dtype, "dtype", SL__CONVERT, NONE, sl_precision_names, "fp32", 0, 0,
        {0, "type of the published weights; fp16 refuses numbers beyond 65,504"})
SETTING(INTEGER, shard_size, "shard-size", SL__CONVERT, NONE, "MB", NULL, 1, 1e9,
        {0, "with --to=hf: write several files of at most MB megabytes, and an index (default: one file)"})

SETTING(TEXT, out, "out",
        SL__TRAIN | SL__BENCH | SL__SIMULATE | SL__COMPARE | SL__SCALE | SL__TRACE | SL__REPORT | SL__TOKENIZE |
            SL__CONVERT | SL__IMPORT | SL__GRADE,
        NONE, "PATH", NULL, 0, 0, {SL__TRAIN, "run directory (default runs/MODEL-DATE)"},
        {SL__TOKENIZE | SL__IMPORT, "folder for the files"}, {SL__CONVERT, "file to write; with --to=hf a folder"},
        {SL__BENCH | SL__SIMULATE, "folder for the timeline (default: do not write it)"},
        {SL__COMPARE, "folder for tables, page and plots (default: do not write them)"},
        {SL__SCALE, "folder for scale.html, scale.csv and scale.json (default: do not write them)"},
        {SL__TRACE, "file to write"}, {SL__REPORT, "file to write (default RUN/report.html)"},
        {SL__GRADE, "table to write (default: standard output)"})
SETTING(FLAG, resume, "resume", SL__TRAIN, NONE, NULL, NULL, 0, 0, {0, "continue the run in --out"})
SETTING(FLAG, force, "force", SL__TRAIN, NONE, NULL, NULL, 0, 0, {0, "replace the run in --out"})
SETTING(TEXT, svg, "svg", SL__REPORT, NONE, "DIR", NULL, 0, 0,
        {0, "also write the plots as SVG files to this folder: timeline, idle, loss, throughput, roofline"})
SETTING(TEXT, beside, "beside", SL__REPORT, NONE, "RUN", NULL, 0, 0,
        {0,
         "also show this run of the same tasks, such as a simulated one, and divide the difference of their step times "
         "by cause"})
SETTING(CHOICE, format, "format", SL__TRACE, NONE, "chrome|paje|csv", NULL, 0, 0,
        {0, "write the timeline to --out for ui.perfetto.dev (chrome), ViTE (paje) or a spreadsheet (csv)"})
SETTING(CHOICE, split, "split", SL__EVAL, NONE, "test|validation|train", "test", 0, 0, {0, "part of the data to score"})
SETTING(TEXT, prompt, "prompt", SL__GENERATE, NONE, "TEXT", NULL, 0, 0, {0, "beginning of the text"})
SETTING(TEXT, prompt_file, "prompt-file", SL__GENERATE, NONE, "FILE", NULL, 0, 0,
        {0, "file with the beginning of the text"})
SETTING(INTEGER, tokens, "tokens", SL__GENERATE, NONE, "N", "256", 1, 1e9, {0, "number of tokens to generate"})
SETTING(REAL, temperature, "temperature", SL__GENERATE, NONE, "X", "1", 0, 1e6,
        {0, "divide the logits by X; 0: always take the likeliest token"})
SETTING(INTEGER, top_k, "top-k", SL__GENERATE, NONE, "K", NULL, 1, 1e9, {0, "draw from the K likeliest tokens only"})
SETTING(REAL, top_p, "top-p", SL__GENERATE, NONE, "P", "1", 0, 1,
        {0, "draw from the fewest tokens whose probabilities add up to P or more"})
SETTING(TEXT, tokenizer, "tokenizer", SL__GENERATE | SL__TOKENIZE, NONE, "PATH", NULL, 0, 0,
        {0,
         "tokenizer of the text: bytes, tokenizer.json, vocab.txt, or a folder with one of them or with vocab.json and "
         "merges.txt"},
        {SL__GENERATE, "by default tokenizer.json beside the model, or bytes if the vocabulary is 256"},
        {SL__TOKENIZE, "or train, to learn a tokenizer from the texts"})
SETTING(INTEGER, vocabulary, "vocabulary", SL__TOKENIZE, NONE, "N", NULL, 257, 1e6,
        {0, "number of tokens of the tokenizer to learn"})
SETTING(CHOICE, bits, "bits", SL__TOKENIZE, NONE, "16|32", NULL, 0, 0,
        {0, "bits per token in the files (default: 16 if all ids fit)"})
SETTING(TEXT, decode, "decode", SL__TOKENIZE, NONE, "FILE", NULL, 0, 0, {0, "print the text of a token file"})
SETTING(TEXT, size, "size", SL__IMPORT | BUILDS | SL__CONVERT, RUN, "KEY=VALUE,...|HxW", NULL, 0, 0,
        {BUILDS, "change sizes of the model, such as layers=6,width=72 ('starling info --models' lists them)"},
        {SL__CONVERT, "sizes that the weights do not show, such as heads=6"},
        {SL__IMPORT, "HxW: resize images to this height and width, and ignore their proportions"})
SETTING(INTEGER, resize, "resize", SL__IMPORT | SL__PREDICT, NONE, "N", NULL, 1, 65536,
        {0, "resize images so that the shorter side has N pixels"},
        {SL__PREDICT, "then cut the model's size out of the middle"})
SETTING(INTEGER, crop, "crop", SL__IMPORT, NONE, "N", NULL, 1, 65536, {0, "then cut NxN pixels out of the middle"})
SETTING(FLAG, grey, "grey", SL__IMPORT, NONE, NULL, NULL, 0, 0, {0, "make grey images of one channel"})
SETTING(REAL, test_fraction, "test-fraction", SL__IMPORT, NONE, "F", NULL, 0, 0.9,
        {0, "share of each class's images to use for testing, if there is no folder of test images (default: none)"})
SETTING(FLAG, skip_bad, "skip-bad", SL__IMPORT, NONE, NULL, NULL, 0, 0,
        {0, "skip unreadable images, and list them at the end"})
SETTING(INTEGER, top, "top", SL__PREDICT, NONE, "N", "1", 1, 1e6, {0, "number of classes to print for each image"})
SETTING(INTEGER, ranks, "ranks", SL__TRAIN | SL__GRAPH, NONE, "N", NULL, 1, 4096,
        {SL__TRAIN, "start mpiexec with N ranks (default: the ranks of --hosts, else this process alone)"},
        {SL__GRAPH, "show the step of the first of N ranks, and the data that the ranks exchange (default 1)"})
SETTING(INTEGER, nodes, "nodes", SL__SIMULATE | SL__COMPARE | SL__PLAN, NONE, "N", "1", 1, 65536,
        {SL__PLAN, "train on N nodes"}, {0, "simulate N nodes, joined by the machine's network"},
        {SL__COMPARE, "with --machine"})
SETTING(TEXT, rank_list, "ranks", SL__SCALE, NONE, "N,N,...", NULL, 0, 0,
        {0,
         "numbers of ranks to measure on this machine or on --hosts, one after another; mpiexec starts them (default "
         "with --hosts: 1, 2, 4 and so on, and all)"})
SETTING(TEXT, node_list, "nodes", SL__SCALE, NONE, "N,N,...", NULL, 0, 0,
        {0, "numbers of nodes of --machine to simulate, one after another (default 1,2,4,8)"})
SETTING(INTEGER, ranks_per_node, "ranks-per-node", SL__SIMULATE | SL__COMPARE | SL__SCALE, NONE, "N", "1", 1, 4096,
        {0, "ranks of a node, which share its cores and GPUs"}, {SL__COMPARE | SL__SCALE, "with --machine"})
SETTING(FLAG, weak, "weak", SL__SCALE, NONE, NULL, NULL, 0, 0,
        {0, "weak scaling: batch and leaves grow with the nodes (default: the same batch on all)"})
SETTING(TEXT, what_if, "what-if", SL__SIMULATE | SL__SCALE, NONE, "KEY=VALUE|KEY=FACTORx,...", NULL, 0, 0,
        {0,
         "change numbers of the machine's description, such as network.bandwidth=2x or gpu.memory=80e9 "
         "(docs/reference/machines.md)"},
        {SL__SCALE, "beside the machine as it is"})
SETTING(REAL, slow_node, "slow-node", SL__SIMULATE | SL__SCALE, NONE, "FACTOR", NULL, 1, 1000,
        {0, "the tasks of one node take FACTOR times as long, and the others wait for it in every exchange"})
SETTING(
    REAL, jitter, "jitter", SL__SCALE, NONE, "PERCENT", NULL, 0, 100,
    {0, "the time that a rank computes in a step varies by PERCENT (standard deviation); a step waits for the slowest"})
SETTING(FLAG, lost_node, "lost-node", SL__SCALE, NONE, NULL, NULL, 0, 0,
        {0, "what a lost node costs: the throughput without it, and the work since the last checkpoint"})
SETTING(REAL, price, "price", SL__SCALE | SL__PLAN, NONE, "MONEY", NULL, 0, 1e9,
        {0, "price of one node per hour (default: that of the machine's description)"})
SETTING(INTEGER, plan_ranks_per_node, "ranks-per-node", SL__PLAN, NONE, "N", NULL, 1, 4096,
        {0, "propose only plans with N ranks on a node (default: chosen)"})
SETTING(INTEGER, train_samples, "samples", SL__PLAN, NONE, "N", NULL, 1, ANY,
        {0, "say how long training on N samples takes, each pass counted, its energy and its price"})
SETTING(INTEGER, train_tokens, "tokens", SL__PLAN, NONE, "N", NULL, 1, ANY,
        {0, "the same for N tokens of a language model"})
SETTING(TEXT, within, "time", SL__PLAN, NONE, "D", NULL, 0, 0,
        {0,
         "with --samples or --tokens: the training must end within D, such as 90m, 36h or 7d; where it does not on "
         "--nodes, plan finds the least number of nodes on which it does"})
SETTING(REAL, node_memory, "memory", SL__PLAN, NONE, "MB", NULL, 0.001, 1e12,
        {0, "million bytes of a node's memory that a plan may use (default: all of the machine's)"})
SETTING(FLAG, measures, "run", SL__PLAN, NONE, NULL, NULL, 0, 0,
        {0,
         "measure the best plans and the default one here, in turn, by 'starling bench', the fastest under other "
         "policies too, and say how the predictions held"})
SETTING(INTEGER, restarts, "restarts", SL__TRAIN, NONE, "N", NULL, 0, 1e6,
        {0,
         "if a rank is lost (killed by a signal, or stalled), start the job again from its last checkpoint, "
         "up to N times; needs --out"})
SETTING(TEXT, hosts, "hosts", SL__TRAIN | SL__SCALE, NONE, "NAME[:N],...", NULL, 0, 0,
        {SL__TRAIN,
         "start mpiexec with N ranks (default 1) on each of these hosts; a restart leaves out hosts that no longer "
         "answer"},
        {SL__SCALE,
         "measure on these hosts, each with up to N ranks (default 1); a measurement with fewer ranks uses the first "
         "hosts of the list"})
SETTING(TEXT, mpiexec, "mpiexec", SL__TRAIN | SL__SCALE, NONE, "FILE", NULL, 0, 0,
        {0, "the mpiexec to start, with --ranks or --hosts (default mpiexec.mpich, else mpiexec)"})
SETTING(FLAG, tasks, "tasks", SL__GRAPH, NONE, NULL, NULL, 0, 0,
        {0, "show every task, not one line per layer and operation"})
SETTING(FLAG, dot, "dot", SL__GRAPH, NONE, NULL, NULL, 0, 0, {0, "print the graph for dot (graphviz)"})
SETTING(FLAG, models, "models", SL__INFO, NONE, NULL, NULL, 0, 0, {0, "list the models and their sizes"})
SETTING(FLAG, no_measure, "no-measure", SL__BENCH | SL__INFO, NONE, NULL, NULL, 0, 0,
        {0, "do not measure sgemm peak and memory bandwidth"})
SETTING(FLAG, no_priorities, "no-priorities", SL__BENCH | SL__SIMULATE, NONE, NULL, NULL, 0, 0,
        {0, "give StarPU no task priorities, to see their effect"})
SETTING(TEXT, policies, "policies", SL__COMPARE, NONE, "LIST", NULL, 0, 0,
        {0,
         "scheduling policies to compare, separated by commas, or all that StarPU has; eager always takes part "
         "(default: eager,lws,prio,dmda,dmdas, and heteroprio on machines with GPUs)"})
SETTING(CHOICE, priorities, "priorities", SL__COMPARE, NONE, "on|off|both", "on", 0, 0,
        {0, "compare each policy with task priorities, without them, or both"})
SETTING(REAL, minutes, "minutes", SL__COMPARE, NONE, "M", NULL, 0, 1e6,
        {0,
         "take about M minutes: choose --repetitions and --steps to fit, unless they are given (default 3; with "
         "--repetitions no limit)"})
SETTING(INTEGER, repetitions, "repetitions", SL__COMPARE, NONE, "N", NULL, 3, 1e6,
        {0, "measure each policy N times, in turn with the others (default: see --minutes)"})
SETTING(REAL, timeout, "timeout", SL__GRADE, NONE, "SECONDS", "60", 0.1, 1e6,
        {0, "end a submission whose processor time and sleep together exceed SECONDS"})
SETTING(FLAG, unprotected, "unprotected", SL__GRADE, NONE, NULL, NULL, 0, 0,
        {0, "run submissions even without a sandbox: they can then read and change everything that this account can"})
SETTING(INTEGER, memory, "memory", SL__GRADE, NONE, "MB", "2048", 1, 1e9,
        {0, "end a submission whose processes use more memory"})
SETTING(TEXT, bundle, "bundle", SL__COMPARE, NONE, "FILE.tar.gz", NULL, 0, 0,
        {0,
         "write an archive with which others can repeat the comparison: options, machine, every repetition, "
         "performance models, a script"})
SETTING(FLAG, no_record, "no-record", SL__BENCH, NONE, NULL, NULL, 0, 0,
        {0, "record no tasks, to see the cost of recording; shares of worker time are then unknown"})
SETTING(TEXT, config, "config", SL__ALL, NONE, "FILE", NULL, 0, 0,
        {0, "YAML file with options as keys; options on the command line override it"})
SETTING(FLAG, json, "json", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print JSON"})
SETTING(FLAG, quiet, "quiet", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print results and errors only"})
SETTING(FLAG, help, "help", SL__ALL, NONE, NULL, NULL, 0, 0, {0, "print this help"})
