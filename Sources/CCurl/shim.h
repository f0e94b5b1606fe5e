// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// libcurl. Its variadic setters and getters are not imported by Swift: one
// typed wrapper per kind of value. No logic.
#ifndef MOORAGE_CCURL_SHIM_H
#define MOORAGE_CCURL_SHIM_H

#include <curl/curl.h>

typedef size_t (*moorage_curl_data_callback)(char *_Nullable, size_t, size_t, void *_Nullable);
typedef int (*moorage_curl_seek_callback)(void *_Nullable, curl_off_t, int);
typedef int (*moorage_curl_sockopt_callback)(void *_Nullable, curl_socket_t, curlsocktype);
typedef int (*moorage_curl_prereq_callback)(void *_Nullable, char *_Nullable, char *_Nullable, int, int);

static inline CURLcode moorage_curl_set_long(CURL *_Nonnull handle, CURLoption option, long value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_offset(CURL *_Nonnull handle, CURLoption option, curl_off_t value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_string(
    CURL *_Nonnull handle, CURLoption option, const char *_Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_pointer(CURL *_Nonnull handle, CURLoption option, void *_Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_list(
    CURL *_Nonnull handle, CURLoption option, struct curl_slist *_Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_data_callback(
    CURL *_Nonnull handle, CURLoption option, moorage_curl_data_callback _Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_seek_callback(
    CURL *_Nonnull handle, CURLoption option, moorage_curl_seek_callback _Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_set_sockopt_callback(
    CURL *_Nonnull handle, CURLoption option, moorage_curl_sockopt_callback _Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline curl_socket_t moorage_curl_open_socket(
    void *_Nullable context, curlsocktype purpose, struct curl_sockaddr *_Nonnull address) {
    (void)context, (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}
// Has sockets made that no program inherits which is started meanwhile.
static inline CURLcode moorage_curl_set_private_sockets(CURL *_Nonnull handle) {
    return curl_easy_setopt(handle, CURLOPT_OPENSOCKETFUNCTION, moorage_curl_open_socket);
}
static inline CURLcode moorage_curl_set_prereq_callback(
    CURL *_Nonnull handle, CURLoption option, moorage_curl_prereq_callback _Nullable value) {
    return curl_easy_setopt(handle, option, value);
}
static inline CURLcode moorage_curl_get_long(CURL *_Nonnull handle, CURLINFO info, long *_Nonnull value) {
    return curl_easy_getinfo(handle, info, value);
}
static inline CURLcode moorage_curl_get_offset(CURL *_Nonnull handle, CURLINFO info, curl_off_t *_Nonnull value) {
    return curl_easy_getinfo(handle, info, value);
}
static inline CURLcode moorage_curl_get_pointer(
    CURL *_Nonnull handle, CURLINFO info, void *_Nullable *_Nonnull value) {
    return curl_easy_getinfo(handle, info, value);
}
static inline CURLMcode moorage_curl_multi_set_long(CURLM *_Nonnull multi, CURLMoption option, long value) {
    return curl_multi_setopt(multi, option, value);
}
// The result of a finished transfer: a union member Swift reads awkwardly.
static inline CURLcode moorage_curl_message_result(const CURLMsg *_Nonnull message) {
    return message->data.result;
}

#endif
