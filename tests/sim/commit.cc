// In a file of its own: nothing else is compiled again when the commit changes.
#include "commit_text.h"
#include "tally.h"

namespace switchml::sim {

std::string commit() { return SWITCHML_SIM_COMMIT; }

}  // namespace switchml::sim
