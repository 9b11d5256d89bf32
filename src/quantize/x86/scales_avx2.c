/* SPDX-License-Identifier: MIT */
#define ISA avx2
#define WIDTH 8
#include "quantize/scales_tmpl.h"
