/* SPDX-License-Identifier: MIT */
#define ISA plain
#define WIDTH 4
#include "quant/search_impl.h"
