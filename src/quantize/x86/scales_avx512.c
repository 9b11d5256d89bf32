/* SPDX-License-Identifier: MIT */
#define ISA avx512
#define WIDTH 16
#include "quantize/scales_tmpl.h"
