#include "transport/http_server.h"

#include <deque>
#include <stdexcept>

#include "http_client.h"

namespace switchml {
namespace {

std::unique_ptr<HttpServer> start() {
  auto server =
      HttpServer::start("--metrics", "127.0.0.1:0", {"/page", "text/x", [] { return std::string("the page"); }});
  EXPECT_TRUE(server.ok()) << server.status().message();
  return std::move(server.value());
}

TEST(HttpServer, ServesItsPageAndNoOther) {
  const auto server = start();
  EXPECT_EQ(http_get(server->local(), "/page"),
            "HTTP/1.1 200 OK\r\nContent-Type: text/x\r\nContent-Length: 8\r\nConnection: close\r\n\r\nthe page");
  for (const char* const other : {"/", "/pages", "/page/"}) {
    EXPECT_EQ(http_get(server->local(), other).rfind("HTTP/1.1 404 Not Found\r\n", 0), 0U) << other;
  }
}

TEST(HttpServer, AHeadInPiecesIsOne) {
  const auto server = start();
  HttpClient client(server->local());
  for (const char* const piece : {"GET /pa", "ge HTTP/1.1\r\nHo", "st: x\r\n\r", "\n"}) client.say(piece);
  EXPECT_NE(client.answer().find("\r\n\r\nthe page"), std::string::npos);
}

TEST(HttpServer, AHeadWithoutAnEndIsGivenUp) {
  const auto server = start();
  HttpClient client(server->local());
  for (int i = 0; i < 40; ++i) client.say(std::string(1000, 'x'));
  EXPECT_EQ(client.answer(), "");
}

TEST(HttpServer, ThoseWhoSayNothingKeepNobodyOutAndDoNotHoldUpItsEnd) {
  auto server = start();
  std::deque<HttpClient> silent;
  for (size_t i = 0; i < 3 * HttpServer::Page().connections; ++i) silent.emplace_back(server->local());
  silent.back().say("GET /page");
  EXPECT_NE(http_get(server->local(), "/page").find("the page"), std::string::npos);
  server.reset();
}

TEST(HttpServer, APortThatIsTakenIsNamed) {
  const auto server = start();
  const auto second = HttpServer::start("--metrics", server->local(), {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().message().rfind("--metrics=\"" + server->local() + "\": ", 0), 0U);
}

}  // namespace
}  // namespace switchml
