# Every *_fuzz.cc, once: fuzz_target(NAME MUTATIONS LIBRARY...), a function of who includes this. MUTATIONS: how many take
# about a second without sanitizers.
find_package(GTest REQUIRED)
fuzz_target(packet 800000 switchml_wire)
fuzz_target(switch 200000 switchml_softswitch)
fuzz_target(control_client 400000 switchml_client)
fuzz_target(settings 200000 switchml_base)
fuzz_target(stream 400000 switchml_transport)
fuzz_target(controller 40000 switchml_controller switchml_transport GTest::gtest)
fuzz_target(worker 20000 switchml_engine GTest::gtest)
if(TARGET switchml_controllerd)
  fuzz_target(topology 1200 switchml_controllerd)
  fuzz_target(tokens 800 switchml_controllerd)
endif()
