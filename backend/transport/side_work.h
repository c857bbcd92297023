// Work of a thread over a transport of its own that another thread can do in its place, for as long as it waits for
// what comes of it.
#pragma once

namespace switchml {

class SideWork {
 public:
  virtual ~SideWork() = default;

  /// From now on the calling thread does the work. False: its own thread is at it now, and will let it go soon.
  virtual bool take() = 0;
  /// What can be done without waiting. False: there was nothing. Only between take() and give_back().
  virtual bool step() = 0;
  /// A descriptor that is readable while there may be something to do.
  virtual int readable() const = 0;
  /// Its own thread does what is left, and looks for more at intervals: what comes now mostly waits for the one that
  /// takes it next.
  virtual void give_back() = 0;
  /// Its own thread does the work from now on, without delay. Thread-safe; costs nothing if it does already.
  virtual void rouse() = 0;
};

}  // namespace switchml
