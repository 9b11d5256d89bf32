/* SPDX-License-Identifier: MIT */
#define ISA avx512
#define WIDTH 16
#include "quant/search_impl.h"
