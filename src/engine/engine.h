/* SPDX-License-Identifier: MIT
 *
 * What rooms above see, for now all of it.
 */
#ifndef LUTRA_ENGINE_ENGINE_H
#define LUTRA_ENGINE_ENGINE_H

#include "engine/engine_impl.h"

#endif
