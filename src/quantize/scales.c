/* SPDX-License-Identifier: MIT */
#define ISA plain
#define WIDTH 4
#include "quantize/scales_tmpl.h"
