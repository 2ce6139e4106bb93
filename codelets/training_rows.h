/* The settings of training, one row each. Included where SL_REAL and SL_NAMED are defined: for the struct sl_training
 * (training.h), for its table (training.c), and for the command's options (tools/settings). A row is all that a new
 * setting needs beside the code that reads it: the option, its help, the model file, and what --resume compares come
 * from here.
 *
 * SL_REAL(field, "option", flags, "ARGUMENT", least, most, "help")
 * SL_NAMED(type, field, "option", flags, names, "help")     one of names, an enum of the type
 * The default is the model's (sl_model.training). Flags are those of sl_training_setting. */
SL_NAMED(sl_optimizer, optimizer, "optimizer", 0, sl_optimizer_names, "update rule (default: the model's)")
SL_REAL(learning_rate, "learning-rate", SL_TRAINING_EACH_STEP, "R", 0, 1e38,
        "largest learning rate (default: the model's)")
SL_REAL(momentum, "momentum", SL_TRAINING_OPTIMIZER, "M", 0, 1, "(default: the model's)")
SL_REAL(beta1, "beta1", SL_TRAINING_OPTIMIZER, "B", 0, 1, "(default: the model's)")
SL_REAL(beta2, "beta2", SL_TRAINING_OPTIMIZER, "B", 0, 1, "(default: the model's)")
SL_REAL(eps, "eps", SL_TRAINING_OPTIMIZER, "E", 0, 1, "(default: the model's)")
SL_REAL(decay, "decay", 0, "D", 0, 1e6, "weight decay of matrices and filters (default: the model's)")
SL_REAL(clip, "clip", 0, "NORM", 0, 1e38, "bound of the gradients' global norm, 0: none (default: the model's)")
SL_REAL(smoothing, "smoothing", SL_TRAINING_LATER, "S", 0, 1, "label smoothing (default: the model's)")
SL_REAL(dropout, "dropout", SL_TRAINING_LATER, "P", 0, 0.99,
        "part of the elements that models with dropout leave out (default: the model's)")
SL_NAMED(sl_batchnorm_over, batchnorm, "batchnorm", 0, sl_batchnorm_names,
         "samples that batchnorm normalises over (default: the model's)")
SL_NAMED(sl_recompute, recompute, "recompute", SL_TRAINING_NO_BIT, sl_recompute_names,
         "compute again in the backward pass what attention, or each block, made, rather than keep it (default none)")
